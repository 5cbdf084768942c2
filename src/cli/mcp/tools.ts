import { z } from "zod";
import type { KeyReport, Locks } from "../../client/index.ts";
import { isKey, MAX_KEY_BYTES } from "../../client/wire.ts";
import { CommandError } from "../output/errors.ts";
import { printable } from "../output/printable.ts";
import { connectLocks } from "../service/connected.ts";
import { explained } from "../service/explained.ts";
import { HttpService } from "../service/http.ts";
import { fenceOf, type KeyInUse, pageOfKeys } from "../service/keys.ts";
import { placeLine } from "../service/queue-place.ts";
import type { Target } from "../service/target.ts";
import type { AgentLocks } from "./agent-locks.ts";
import {
  HOLDER,
  heldText,
  holderDocument,
  holdersText,
  LOST,
  type Self,
  WAITER,
  waiterDocument,
  waiterText,
  waitingText,
} from "./documents.ts";
import { labelFor } from "./labels.ts";
import { type Call, type Outcome, type Tool, tool } from "./tool.ts";

/** Less than the minute after which many MCP clients give a call up. */
const DEFAULT_WAIT_SECONDS = 30;
const MAX_WAIT_SECONDS = 3_600;
const PROGRESS_EVERY_MS = 5_000;
const MAX_LISTED = 100;
const MAX_REASON_CHARACTERS = 1_000;

const KEY = z
  .string({ error: "must be a text" })
  .min(1, "must not be empty")
  .max(MAX_KEY_BYTES, `must be at most ${MAX_KEY_BYTES} bytes`)
  .refine(isKey, `must be 1 to ${MAX_KEY_BYTES} bytes without blanks and line breaks`)
  .describe(
    "Name of the lock: any text without blanks. Everyone who must exclude one another uses the same one, so name the resource, with the project if the server is shared: shop/schema.sql, shop/deploy-production.",
  );
const WAIT_SECONDS = z
  .number({ error: "must be a number" })
  .min(0, "must be at least 0")
  .max(MAX_WAIT_SECONDS, `must be at most ${MAX_WAIT_SECONDS}`)
  .default(DEFAULT_WAIT_SECONDS)
  .describe("How long to wait in the queue if another client holds the key. 0 tries once.");
const REASON = z
  .string({ error: "must be a text" })
  .max(MAX_REASON_CHARACTERS, `must be at most ${MAX_REASON_CHARACTERS} characters`)
  .optional()
  .describe(
    "What you are about to do, in a few words: everyone who wants the key sees it, about the first 30 characters.",
  );
const PREFIX = z
  .string({ error: "must be a text" })
  .max(MAX_KEY_BYTES, `must be at most ${MAX_KEY_BYTES} bytes`)
  .default("")
  .describe("Only keys that begin with this.");

/** What the tools need to know. */
export interface Agent {
  readonly target: Target;
  readonly locks: AgentLocks;
  /** How others see it. The name of the MCP client is part of it, and known after the handshake. */
  name(): string;
}

export function toolsOf(agent: Agent): readonly Tool[] {
  return [acquireTool(agent), releaseTool(agent), whoTool(agent), listTool(agent)];
}

function acquireTool({ locks, name }: Agent): Tool {
  return tool({
    name: "acquire",
    title: "Acquire a lock",
    description: `Take the lock on a key before you change something that others may be changing at the same time: a shared file, a database schema, a deployment. If it is free, you hold it at once. If another client holds it, you wait in line, first come, first served, for up to wait_seconds.

Only go on if status is "acquired". "busy" means that you do not hold it and have left the queue: do other work, ask with \`who\`, or call again to wait again. "already_held" means that this server got the lock before, for you or for another agent of this session: if it was not you, do not go on.

The lock is renewed until you call \`release\`. Release it as soon as the work is done. It is also given back when this session ends.`,
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    input: z.strictObject({ key: KEY, wait_seconds: WAIT_SECONDS, reason: REASON }),
    output: z.object({
      key: z.string(),
      status: z.enum(["acquired", "already_held", "busy"]),
      fence: z.string().optional().describe("a decimal number, higher than that of every earlier holder"),
      waited_s: z.number().optional(),
      held_by: z.array(HOLDER).optional().describe("if it is busy: who holds it"),
      waiters: z.number().optional().describe("if it is busy: how many wait"),
      lost: LOST,
    }),
    run: async ({ key, wait_seconds, reason }, call) => {
      const label = labelFor(name(), reason);
      const waits = (client: Locks, over: AbortSignal) => showPlace({ key, label, client }, over, call);
      const result = await locks
        .acquire({ key, label, waitMs: wait_seconds * 1000 }, { signal: call.signal, waits })
        .catch(withoutFlags(key));
      if (result.status === "busy") return busy(key, result.report, selfOf(locks));
      const { held } = result;
      const document = { key, status: result.status, fence: fenceOf(held.lock.token) };
      if (result.status === "already_held") {
        const told = `This server holds ${heldText(held)}. If that was not you but another agent of this session, do not go on until it has released it.`;
        return { text: told, document, isError: true };
      }
      // The answer to a cancelled call is not sent, so the agent would not know that it holds the lock.
      if (call.signal.aborted) await locks.giveBack(held);
      const waited = Number(held.waitedSeconds.toFixed(3));
      const text = `Acquired ${printable(key)} (fence ${document.fence}). It is renewed until you release it.`;
      return { text, document: { ...document, waited_s: waited } };
    },
  });
}

/** Tools have no `--limit`, which the message of a command would name. */
function withoutFlags(key: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof CommandError) || error.code !== "limit_mismatch") throw error;
    const message = `${key} is in use as a semaphore, with another limit than 1: use another key`;
    throw new CommandError("limit_mismatch", message, { cause: error });
  };
}

function busy(key: string, report: KeyReport | null, self: Self): Outcome {
  const document = {
    key,
    status: "busy",
    held_by: report?.held_by.map((holder) => holderDocument(holder, self)) ?? [],
    waiters: report?.waiters ?? 0,
  };
  const who = report ? `${holdersText(report)}; ${waitingText(report.waiters)}` : "who holds it cannot be seen";
  const text = `Busy: you do not hold ${printable(key)}. It is ${who}. You have left the queue; acquire it again to wait again.`;
  return { text, document, isError: true };
}

interface Place {
  readonly key: string;
  readonly label: string;
  readonly client: Locks;
}

/** Tells the client the place in the queue, which also keeps many clients from giving the call up. */
function showPlace({ key, label, client }: Place, over: AbortSignal, call: Call): void {
  const since = performance.now();
  const timer = setInterval(async () => {
    const report = await client.query(key).catch(() => null);
    const seconds = (performance.now() - since) / 1000;
    const query = (asked: string) => client.query(asked);
    if (!over.aborted) call.progress(seconds, placeLine(report, { key, label, query }, seconds));
  }, PROGRESS_EVERY_MS);
  over.addEventListener("abort", () => clearInterval(timer), { once: true });
}

function releaseTool({ locks, target }: Agent): Tool {
  return tool({
    name: "release",
    title: "Release a lock",
    description:
      "Give a lock back that you have acquired, as soon as the work under it is done. The next in line has it at once. Locks of others cannot be released.",
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({ key: KEY }),
    output: z.object({
      key: z.string(),
      released: z.boolean().describe("false if the server has not confirmed it: then it is free when its lease ends"),
      lost: LOST,
    }),
    run: async ({ key }) => {
      const shown = printable(key);
      const result = await locks.release(key);
      switch (result.status) {
        case "released":
          return { text: `Released ${shown}.`, document: { key, released: true } };
        case "not_held":
          return { text: `You do not hold ${shown}: there is nothing to release.`, isError: true };
        case "lost":
          return { text: `${shown} was already lost before it was released.`, isError: true };
        case "unconfirmed": {
          const until = `it is free within ${result.leaseSeconds} s`;
          const text = `The server at ${target.url} did not confirm the release of ${shown}: ${until}.`;
          return { text, document: { key, released: false } };
        }
      }
    },
  });
}

function whoTool({ target, locks, name }: Agent): Tool {
  return tool({
    name: "who",
    title: "Who holds a lock",
    description:
      "Look at one key: who holds it, since when, for what reason, and who waits in line. Takes nothing and never waits. The answer may be out of date a moment later: to be sure that you hold a lock, acquire it.",
    annotations: { readOnlyHint: true, openWorldHint: false },
    input: z.strictObject({ key: KEY }),
    output: z.object({
      key: z.string(),
      limit: z.number().describe("how many may hold it at a time; 1 is a lock"),
      held_by: z.array(HOLDER),
      waiters: z.number().describe("how many wait; the queue shows the first hundred"),
      queue: z.array(WAITER),
      lost: LOST,
    }),
    run: async ({ key }, { signal }) => {
      const report = await reportOf(target, key, labelFor(name(), undefined), signal);
      const self = selfOf(locks);
      const document = {
        key,
        limit: report?.limit ?? 1,
        held_by: report?.held_by.map((holder) => holderDocument(holder, self)) ?? [],
        waiters: report?.waiters ?? 0,
        queue: report?.queue.map((waiter) => waiterDocument(waiter, self)) ?? [],
      };
      const state = report ? `${holdersText(report)}; ${waitingText(report.waiters)}` : "free; nobody waits";
      const yours = document.held_by.some((holder) => holder.is_you) ? " You hold it." : "";
      const text = [`${printable(key)} is ${state}.${yours}`, ...(report?.queue ?? []).map(waiterText)].join("\n");
      return { text, document };
    },
  });
}

/** Null for a key that is not in use. */
async function reportOf(target: Target, key: string, label: string, signal: AbortSignal): Promise<KeyReport | null> {
  const client = await connectLocks(target, label, signal);
  try {
    return await client.query(key);
  } catch (error) {
    throw explained(target, error, { key });
  } finally {
    await client.close();
  }
}

function listTool({ target, locks }: Agent): Tool {
  return tool({
    name: "list",
    title: "List locks",
    description: `List the keys that are held or waited for, in the order of their names, at most ${MAX_LISTED}, and the locks that you hold. Use it to find out what others are working on, or what you still have to release.`,
    annotations: { readOnlyHint: true, openWorldHint: false },
    input: z.strictObject({ prefix: PREFIX }),
    output: z.object({
      keys: z.array(z.object({ key: z.string(), limit: z.number(), held_by: z.array(HOLDER), waiters: z.number() })),
      is_complete: z.boolean().describe("false if there are more keys: give a longer prefix"),
      yours: z.array(z.string()).describe("the keys that you hold"),
      lost: LOST,
    }),
    run: async ({ prefix }) => {
      const { keys, isComplete } = await keysInUse(target, prefix);
      const self = selfOf(locks);
      const yours = locks.held;
      const document = {
        keys: keys.map(({ key, limit, held_by, waiters }) => ({
          key,
          limit,
          held_by: held_by.map((holder) => holderDocument(holder, self)),
          waiters,
        })),
        is_complete: isComplete,
        yours: yours.map(({ lock }) => lock.key),
      };
      const lines = keys.map((each) => `${printable(each.key)}: ${holdersText(each)}; ${waitingText(each.waiters)}`);
      if (!isComplete) lines.push(`There are more: these are the first ${MAX_LISTED}.`);
      const heading = keys.length === 0 ? "No key is held or waited for." : undefined;
      const own = yours.length === 0 ? "You hold none." : `You hold: ${yours.map(heldText).join("; ")}.`;
      return { text: [...(heading ? [heading] : lines), own].join("\n"), document };
    },
  });
}

async function keysInUse(target: Target, prefix: string) {
  const service = new HttpService(target);
  try {
    const keys: KeyInUse[] = [];
    let after: string | undefined;
    do {
      // Keys that nobody uses any more count as well, so a page may have few that are in use.
      const page = await pageOfKeys(service, prefix, MAX_LISTED, after);
      keys.push(...page.keys);
      after = page.next;
    } while (after !== undefined && keys.length <= MAX_LISTED);
    return { keys: keys.slice(0, MAX_LISTED), isComplete: keys.length <= MAX_LISTED };
  } finally {
    await service.close();
  }
}

function selfOf(locks: AgentLocks): Self {
  return { fences: new Set(locks.held.map(({ lock }) => lock.fence)), labels: locks.labels };
}
