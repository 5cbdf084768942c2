import { Failure } from "../../node/listeners/failure.ts";
import type { Arguments } from "../args/parse.ts";
import type { Command } from "../args/spec.ts";
import { BRIDGE_FLAGS, readBridgeSettings } from "../bridge/settings.ts";
import { misnamedVariables } from "../misnamed.ts";
import { settingFlags } from "../setting-flags.ts";
import { readSettings, SETTINGS } from "../settings.ts";

/** The server's commands. Their flags come from its settings, which other commands do not load. */
export const SERVER_COMMANDS: readonly Command[] = [
  {
    name: "serve",
    summary: "run the service on this machine",
    about: "Every flag is also an environment variable; a flag wins. Stop with Ctrl-C or\nSIGTERM.",
    operands: [],
    flags: settingFlags(),
    usage: "[flags]",
    examples: [
      ["serve", "for clients on this machine"],
      ["serve --host 0.0.0.0 --auth-token-file token", "for clients anywhere that have the token"],
    ],
    load: async () => ({ main: runServe }),
  },
  {
    name: "bridge",
    summary: "carry TCP connections to a deployed Worker over WebSockets",
    about: "Accepts TCP connections and opens a WebSocket to the service for each of them.",
    operands: [],
    flags: BRIDGE_FLAGS,
    usage: "[flags]",
    examples: [["bridge --listen :6388 --to wss://locks.example.com/v1/ws", "dflockd clients for a deployed Worker"]],
    load: async () => ({ main: runBridge }),
  },
];

async function runServe({ values }: Arguments): Promise<number> {
  ignoreMissingReaders();
  const settings = readSettings(values, process.env);
  for (const line of misnamedVariables(SETTINGS, values, process.env)) console.error(`holdfast: ${line}`);
  checkNode(process.versions.node);
  const { serve } = await import("../serve.ts");
  await serve(settings);
  return 0;
}

async function runBridge({ values }: Arguments): Promise<number> {
  ignoreMissingReaders();
  const settings = readBridgeSettings(values, process.env);
  const { bridge } = await import("../bridge/bridge.ts");
  await bridge(settings);
  return 0;
}

/** Node has a database of its own from this version on. */
const [MAJOR, MINOR] = [22, 13];

/** Throws a one-line `Failure` if this version of Node is too old for the server. */
export function checkNode(version: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > MAJOR || (major === MAJOR && minor >= MINOR)) return;
  throw new Failure(`holdfast serve needs Node ${MAJOR}.${MINOR} or newer, and this is ${version}`);
}

/** If the reader of our output goes away, keep serving locks. */
function ignoreMissingReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}
