import { finished } from "node:stream/promises";
import { LABEL, LEASE, LIMIT, TIMEOUT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, keyIn, labelIn, leaseIn, secondsIn } from "../args/values.ts";
import { CommandError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { giveUp, unconfirmed } from "../run/key-hold.ts";
import type { Plan } from "../run/plan.ts";
import { SignalRelay } from "../run/signals.ts";
import { type KeptLock, takeLock, type Wanted } from "../service/acquire.ts";
import { labelOf } from "../service/label.ts";
import { type Target, targetOf } from "../service/target.ts";
import { grantDocument, grantLines } from "./context.ts";

/** `holdfast lock`: prints the grant and holds it until standard input ends, a signal arrives or it is lost. */
export async function main(args: Arguments): Promise<number> {
  const timeout = secondsIn(args, TIMEOUT);
  const wanted: Wanted = {
    key: keyIn(args.operands[0] ?? "", "KEY"),
    limit: countIn(args, LIMIT) ?? 1,
    leaseSeconds: leaseIn(args, LEASE),
    timeoutMs: timeout === undefined ? undefined : timeout * 1000,
    label: labelOf(labelIn(args, LABEL)),
  };
  const target = await targetOf(args, process.env);
  const showsPlace = process.stderr.isTTY === true && args.output === "text";
  if (args.command.length > 0) return runCommand(args, target, wanted, showsPlace);
  const relay = new SignalRelay();
  const kept = await takeLock(target, wanted, { signal: relay.interrupted, showsPlace });
  return hold(args, target, kept, relay);
}

async function hold(args: Arguments, target: Target, kept: KeptLock, relay: SignalRelay): Promise<number> {
  const { lock, waitedSeconds } = kept;
  const grant = { token: lock.token, lease_ttl_s: lock.lease / 1000 };
  const waited = Number(waitedSeconds.toFixed(3));
  const printer = new Printer(args.output);
  printer.result({ ...grantDocument(lock.key, grant), waited_s: waited }, grantLines(grant));
  const lost = await Promise.race([lock.lost, endOfInput(relay.interrupted)]);
  const isGiven = await giveUp(kept);
  if (!isGiven && !lost) printer.note(`holdfast: ${unconfirmed(target, lock.key)}`);
  if (lost) throw new CommandError("lost", `lost ${lock.key}: ${lost.reason}`, { isReport: true });
  return 0;
}

/** Resolves when standard input ends, or the signal aborts. */
function endOfInput(signal: AbortSignal): Promise<undefined> {
  const ended = finished(process.stdin.resume(), { signal, writable: false });
  return ended.then(
    () => undefined,
    () => undefined,
  );
}

async function runCommand(args: Arguments, target: Target, wanted: Wanted, showsPlace: boolean): Promise<number> {
  const [{ runWhileHeld }, { holdKey }] = await Promise.all([import("../run/run.ts"), import("../run/key-hold.ts")]);
  const take: Plan["takes"][number] = ({ signal, timeoutMs }) =>
    holdKey(target, { ...wanted, timeoutMs }, { signal, showsPlace });
  return runWhileHeld(
    { takes: [take], timeoutMs: wanted.timeoutMs, onLost: "kill" },
    args.command,
    new Printer(args.output),
  );
}
