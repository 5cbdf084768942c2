import {
  FILE,
  KEY,
  LABEL,
  LEASE,
  LIMIT,
  ON_LOST,
  OPERATIONS,
  OUTPUT_FLAGS,
  OVERWRITE,
  QUIET,
  SERVER_FLAGS,
  SESSION,
  STALE,
  TAG,
  TIMEOUT,
  TTL,
} from "../args/flags.ts";
import type { Command } from "../args/spec.ts";

const EVERY_FLAG = [...SERVER_FLAGS, ...OUTPUT_FLAGS];

/** Commands that load nothing of the server: they also run on Node versions that `serve` does not. */
export const CLIENT_COMMANDS: readonly Command[] = [
  {
    name: "run",
    summary: "hold keys, a lock file or both while a command runs",
    about: `Waits for the lock, runs the command, and gives the lock back when the command
ends. The exit code is the command's; 75 if the lock was not free in time, 76 if
it was lost, 69 if no server answers. With --key the command finds HOLDFAST_KEY
and HOLDFAST_FENCE in its environment, with --file HOLDFAST_FILE. With several
keys these are lists. They are taken all or none, in the order of their bytes.`,
    operands: [],
    command: "required",
    flags: [KEY, FILE, LIMIT, LEASE, TIMEOUT, STALE, TAG, ON_LOST, ...SERVER_FLAGS, QUIET],
    examples: [
      ["run --key deploy -- ./deploy.sh", "one deploy at a time, in the order of arrival"],
      ["run --key nightly --timeout 0 -- ./backup", "skip this time if the last one still runs"],
      ["run --key gpu --limit 4 -- ./train", "at most four at a time"],
      ["run --key invoices --key ledger -- ./close-books", "both, or wait for both"],
      ["run --file /tmp/sync.lock -- rsync -a a/ b/", "a lock file; no server needed"],
    ],
    load: () => import("../run/run.ts"),
  },
  {
    name: "lock",
    summary: "hold a key until standard input ends",
    about: `Waits for the lock, prints its token and fence, and keeps it until standard
input ends or Ctrl-C. On a terminal the place in the queue is shown. With a
command behind -- it is \`holdfast run --key KEY\`.`,
    operands: ["KEY"],
    command: "optional",
    flags: [LIMIT, LEASE, TIMEOUT, LABEL, ...EVERY_FLAG],
    examples: [
      ["lock deploy", "hold it until Ctrl-D or Ctrl-C"],
      ["lock deploy --timeout 5 --json", "for programs: one line, then hold"],
      ["lock deploy -- ./deploy.sh", "the same as run --key deploy -- ./deploy.sh"],
    ],
    load: () => import("./lock.ts"),
  },
  {
    name: "release",
    summary: "give a lock back by its token, or end a session",
    about: `Releases the lock that is held with the token, whichever process or machine
holds it. With --session alone it ends that session and gives up all it has.`,
    operands: ["[KEY]", "[TOKEN]"],
    flags: [SESSION, ...EVERY_FLAG],
    examples: [
      ["release deploy 18e867ca647b4e8019718e2b312570d4", "what `lock` or `wait` printed"],
      ["release --session 5f0c2a9be1d84376a1b2c3d4e5f60718", "end a session of `enqueue`"],
    ],
    load: () => import("./release.ts"),
  },
  {
    name: "renew",
    summary: "start the lease of a lock again",
    about: `Starts the lease again from now, also with another length: the token is enough.
With --session, the session counts as used too: one that is idle for too long
ends, with all it holds.`,
    operands: ["KEY", "TOKEN"],
    flags: [LEASE, SESSION, ...EVERY_FLAG],
    examples: [["renew deploy 18e867ca647b4e8019718e2b312570d4 --lease 60", "60 seconds from now"]],
    load: () => import("./renew.ts"),
  },
  {
    name: "enqueue",
    summary: "take a place in the queue now, to wait for it later",
    about: `Takes the last place in the queue and ends. The place belongs to a session at
the server, which lives as long as it is used: 40 seconds without a command that
names it, by default, and it is gone. What is printed can be read by a shell:
eval "$(holdfast enqueue deploy)"`,
    operands: ["KEY"],
    flags: [LIMIT, LEASE, LABEL, SESSION, ...EVERY_FLAG],
    examples: [
      ["enqueue deploy", "prints state= and session=, and token= if it is held already"],
      ["enqueue gpu --limit 4 --lease 60", "a slot of a semaphore, for 60 seconds"],
    ],
    load: () => import("./enqueue.ts"),
  },
  {
    name: "wait",
    summary: "wait at the place that enqueue has taken",
    about: `Waits until the lock is held, and prints token and fence. When the time is over
the place is given up (75). Renew the lock, or its lease and the session end.`,
    operands: ["KEY"],
    flags: [SESSION, LIMIT, TIMEOUT, ...EVERY_FLAG],
    examples: [['wait deploy --session "$session" --timeout 60', 'after eval "$(holdfast enqueue deploy)"']],
    load: () => import("./wait.ts"),
  },
  {
    name: "ls",
    summary: "list keys with holders and queues",
    about: `One line for each key that is in use: holders, waiters, and the seconds left of
the lease that ends first. Only keys that begin with PREFIX, if one is given.`,
    operands: ["[PREFIX]"],
    flags: EVERY_FLAG,
    examples: [
      ["ls", "everything"],
      ["ls nightly/ --json", "for programs, with every holder and waiter"],
    ],
    load: () => import("./ls.ts"),
  },
  {
    name: "top",
    summary: "the same, live, on the whole terminal",
    about: `Keys with holders, queues and lease countdowns, refreshed every second. q quits,
the arrows scroll. Where standard output is no terminal: one snapshot.`,
    operands: ["[PREFIX]"],
    flags: EVERY_FLAG,
    examples: [
      ["top", "everything"],
      ["top nightly/ > snapshot.txt", "once, as plain text"],
    ],
    load: () => import("../top/top.ts"),
  },
  {
    name: "stats",
    summary: "connections, keys and waiters in numbers",
    about: "The whole server in a few numbers; with --json the document of GET /v1/stats.",
    operands: ["[PREFIX]"],
    flags: EVERY_FLAG,
    examples: [
      ["stats", "a summary"],
      ["stats nightly/ --json", "these keys, as the server tells them"],
    ],
    load: () => import("./stats.ts"),
  },
  {
    name: "ping",
    summary: "check that a server is there, ready, and takes the token",
    about: "Exits with 0 if so. With --session it also counts as a use of that session.",
    operands: [],
    flags: [SESSION, ...EVERY_FLAG],
    examples: [
      ["ping", "is it there?"],
      ["ping --url https://locks.example --token-file token", "and is this its token?"],
    ],
    load: () => import("./ping.ts"),
  },
  {
    name: "ticket",
    summary: "issue a ticket: some keys, some operations, for some time",
    about: `Prints a ticket, which is used wherever a token is. A key may end in *: every
key that begins with what stands before it.`,
    operands: ["KEY…"],
    flags: [OPERATIONS, TTL, ...EVERY_FLAG],
    examples: [
      ["ticket deploy", "to lock deploy, for 5 minutes"],
      ["ticket 'user-42/*' --operations lock,stats --ttl 3600", "these keys, for an hour"],
    ],
    load: () => import("./ticket.ts"),
  },
  {
    name: "backup",
    summary: "copy the database of a running server into a file",
    about: `Writes everything the server has stored at one moment into FILE, an SQLite
database: put it into an empty data directory as holdfast.db to start from it.
Needs the admin token. FILE holds the tokens of all locks: keep it secret.`,
    operands: ["FILE"],
    flags: [OVERWRITE, ...EVERY_FLAG],
    examples: [
      ["backup holdfast-monday.db --token-file admin-token", "a copy, while the server runs"],
      ["backup latest.db --force --quiet", "for cron: replaces the last one when the new one is whole"],
    ],
    load: () => import("./backup.ts"),
  },
  {
    name: "mcp",
    summary: "locks for a coding agent: an MCP server on stdin and stdout",
    about: `Speaks the Model Context Protocol on standard input and output, for an agent
that starts it: tools to acquire and release locks, and to see who holds them.
Locks are renewed while it runs, and given back when the agent ends or SIGTERM
arrives. Set-up for common agents: docs/agents.md.`,
    operands: [],
    flags: [LABEL, ...SERVER_FLAGS],
    examples: [
      ["mcp", "the command to name in the configuration of the agent"],
      ["mcp --url https://locks.example --token-file token", "with a server elsewhere"],
    ],
    load: () => import("../mcp/mcp.ts"),
  },
  {
    name: "completion",
    summary: "print a completion script for bash, zsh or fish",
    about: "Prints a script that teaches the shell the commands and flags of holdfast.",
    operands: ["SHELL"],
    flags: [],
    examples: [
      ["completion bash", 'in ~/.bashrc: eval "$(holdfast completion bash)"'],
      ["completion zsh", 'in ~/.zshrc, after compinit: eval "$(holdfast completion zsh)"'],
      ["completion fish", "holdfast completion fish > ~/.config/fish/completions/holdfast.fish"],
    ],
    load: () => import("../completion/completion.ts"),
  },
];
