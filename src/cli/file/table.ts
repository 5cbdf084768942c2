import { FILE_TAG, FORCE, OUTPUT_FLAGS, STALE, TIMEOUT } from "../args/flags.ts";
import { suggestion } from "../args/nearest.ts";
import type { Command, Flag } from "../args/spec.ts";
import { UsageError } from "../output/errors.ts";
import type { OperationName } from "./commands.ts";

function fileCommand(
  operation: OperationName,
  { summary, exits, flags, examples }: { summary: string; exits: string; flags: Flag[]; examples: Command["examples"] },
): Command {
  return {
    name: `file ${operation}`,
    summary,
    about: `${summary}\n\nExit codes: ${exits}, 2 usage, 3 path or I/O error.`,
    operands: ["PATH"],
    flags: [...flags, ...OUTPUT_FLAGS],
    examples,
    load: async () => {
      const { perform } = await import("./commands.ts");
      return { main: (args) => perform(operation, args) };
    },
  };
}

/** The commands of `holdfast file`. */
export const FILE_COMMANDS: readonly Command[] = [
  fileCommand("try", {
    summary: "Takes the lock if it is free or stale, without waiting.",
    exits: "0 acquired, 1 held",
    flags: [STALE, FILE_TAG],
    examples: [
      ["file try /run/backup.lock || exit 0", "skip this time if the last one still runs"],
      ["file try /run/backup.lock --tag nightly --json", "for programs"],
    ],
  }),
  fileCommand("acquire", {
    summary: "Waits until the lock is free or stale, and takes it.",
    exits: "0 acquired, 1 timed out",
    flags: [TIMEOUT, STALE, FILE_TAG],
    examples: [
      ["file acquire /run/backup.lock --timeout 60 || exit 75", "wait for a minute at most"],
      ["file acquire /run/backup.lock --stale 7200 --tag nightly", "a lock older than two hours is taken over"],
    ],
  }),
  fileCommand("release", {
    summary: "Removes the lock file if the calling shell owns it. A path that is free is fine.",
    exits: "0 released or free, 1 not the owner",
    flags: [FORCE],
    examples: [
      ["file release /run/backup.lock", "in a script: trap 'holdfast file release /run/backup.lock' EXIT"],
      ["file release /run/backup.lock --force", "whoever holds it"],
    ],
  }),
  fileCommand("refresh", {
    summary: "Gives the lock the current time. Never creates it.",
    exits: "0 refreshed, 1 free or not the owner",
    flags: [FILE_TAG],
    examples: [
      ["file refresh /run/backup.lock || exit 1", "before it becomes stale"],
      ["file refresh /run/backup.lock --tag 'step 2'", "with another tag"],
    ],
  }),
  fileCommand("status", {
    summary: "Shows who holds the lock.",
    exits: "0 free, 1 a lock file exists",
    flags: [STALE],
    examples: [
      ["file status /run/backup.lock", "holder, age and tag"],
      ["file status /run/backup.lock --quiet && echo free", "only the exit code"],
    ],
  }),
  fileCommand("wait", {
    summary: "Waits until the path is free or stale. Takes nothing.",
    exits: "0 free or stale, 1 timed out",
    flags: [TIMEOUT, STALE],
    examples: [["file wait /run/backup.lock --timeout 600 && make report", "another may take it meanwhile"]],
  }),
  fileCommand("clean", {
    summary: "Removes a stale lock, and old leftovers of crashed processes.",
    exits: "0 cleaned or nothing to do, 1 held",
    flags: [STALE],
    examples: [["file clean /run/backup.lock --stale 86400", "if it is older than a day"]],
  }),
];

const names = FILE_COMMANDS.map(({ name }) => name.slice("file ".length));

/** `holdfast file` without one of its commands. */
export const FILE_OVERVIEW: Command = {
  name: "file",
  summary: "lock files on disk: try, acquire, release, status and more",
  about: `A lock is held while the file PATH exists. Its text says by whom and since when.

${FILE_COMMANDS.map(({ summary }, index) => `  ${names[index]?.padEnd(9)} ${summary}`).join("\n")}

A lock belongs to the calling shell, or to the process in HOLDFAST_OWNER_PID.
Exit codes: 0 done or free, 1 held or not the owner, 2 usage, 3 path or I/O error.`,
  usage: `${names.join("|")} PATH [flags]`,
  operands: ["[COMMAND]", "[PATH]…"],
  flags: [TIMEOUT, STALE, FILE_TAG, FORCE, ...OUTPUT_FLAGS],
  examples: [],
  load: async () => ({
    main: async ({ operands: [name] }) => {
      throw new UsageError(
        name === undefined ? "no command given" : `unknown command ${name}${suggestion(name, names)}`,
      );
    },
  }),
};
