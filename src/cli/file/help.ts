import { type CommandName, FILE_USAGE, usageOf } from "./usage.ts";

const FLAGS: Readonly<Record<string, string>> = {
  "--timeout": "  --timeout S   give up after S seconds; 0: one attempt (default: wait without limit)",
  "--stale": "  --stale S     a lock older than S seconds may be taken over; 0: never (default: 3600)",
  "--tag": "  --tag T       a line for people, kept in the file",
  "--force": "  --force       remove the lock whoever holds it, and say who that was",
  "--json": "  --json        print one line of JSON",
  "--quiet": "  -q, --quiet   print nothing; the exit code tells",
};

interface Help {
  readonly summary: string;
  readonly exits: string;
  readonly examples: readonly string[];
}

const HELP: Readonly<Record<CommandName, Help>> = {
  try: {
    summary: "Takes the lock if it is free or stale, without waiting. It belongs to the calling shell.",
    exits: "0 acquired, 1 held",
    examples: [
      "holdfast file try /run/backup.lock || exit 0",
      "holdfast file try /run/backup.lock --tag nightly --json",
    ],
  },
  acquire: {
    summary: "Waits until the lock is free or stale, and takes it. It belongs to the calling shell.",
    exits: "0 acquired, 1 timed out",
    examples: [
      "holdfast file acquire /run/backup.lock --timeout 60 || exit 75",
      "holdfast file acquire /run/backup.lock --stale 7200 --tag nightly",
    ],
  },
  release: {
    summary: "Removes the lock file if it belongs to the calling shell. A path that is free is fine.",
    exits: "0 released or free, 1 not the owner",
    examples: ["trap 'holdfast file release /run/backup.lock' EXIT", "holdfast file release /run/backup.lock --force"],
  },
  refresh: {
    summary: "Gives the lock the current time, so that it does not become stale. Never creates it.",
    exits: "0 refreshed, 1 free or not the owner",
    examples: [
      "holdfast file refresh /run/backup.lock || exit 1",
      "holdfast file refresh /run/backup.lock --tag 'step 2'",
    ],
  },
  status: {
    summary: "Shows who holds the lock.",
    exits: "0 free, 1 a lock file exists",
    examples: ["holdfast file status /run/backup.lock", "holdfast file status /run/backup.lock --quiet && echo free"],
  },
  wait: {
    summary: "Waits until the path is free or stale. Takes nothing: another may take it first.",
    exits: "0 free or stale, 1 timed out",
    examples: ["holdfast file wait /run/backup.lock --timeout 600 && make report"],
  },
  clean: {
    summary: "Removes a stale lock, and what crashed processes left beside it over a minute ago.",
    exits: "0 cleaned or nothing to do, 1 held",
    examples: ["holdfast file clean /run/backup.lock --stale 86400"],
  },
};

const OVERVIEW = `usage: ${FILE_USAGE}

A lock is held while the file PATH exists. Its text says by whom and since when.

${Object.entries(HELP)
  .map(([name, { summary }]) => `  ${name.padEnd(9)} ${summary}`)
  .join("\n")}

A lock belongs to the calling shell, or to the process in HOLDFAST_OWNER_PID.
Exit codes: 0 done or free, 1 held or not the owner, 2 usage, 3 path or I/O error.

  holdfast file try /run/backup.lock --tag nightly || exit 0
  holdfast file release /run/backup.lock

Flags and examples of a command: holdfast file COMMAND --help`;

export function helpOf(name: CommandName | undefined): string {
  if (name === undefined) return OVERVIEW;
  const { summary, exits, examples } = HELP[name];
  const usage = usageOf(name);
  const flags = Object.entries(FLAGS).flatMap(([flag, line]) => (usage.includes(`[${flag}`) ? [line] : []));
  return [
    `usage: ${usage}`,
    "",
    summary,
    "",
    ...flags,
    "",
    `Exit codes: ${exits}, 2 usage, 3 path or I/O error.`,
    "",
    "Examples:",
    ...examples.map((example) => `  ${example}`),
  ].join("\n");
}
