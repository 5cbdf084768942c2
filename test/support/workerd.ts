/** One workerd that runs the Worker on real sockets, without wrangler and its proxy in between. */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { Worker } from "./worker.ts";

const { default: WORKERD } = createRequire(import.meta.url)("workerd") as { readonly default: string };

/** Another Worker in the same process. It has an HTTP socket of its own, by its name. */
export interface Neighbour extends Pick<Worker, "script" | "compatibilityFlags" | "objects"> {
  readonly name: string;
  /** By the name of the binding. The service is `main`, which is holdfast, or another neighbour. */
  readonly services: Readonly<Record<string, ServiceBinding>>;
  readonly variables?: Readonly<Record<string, string>>;
}

export interface ServiceBinding {
  readonly service: string;
  readonly entrypoint: string;
  readonly props?: object | undefined;
}

export interface WorkerdOptions {
  readonly worker: Worker;
  /** Where the objects' databases are. */
  readonly storage: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Raw TCP, by the name of the socket; port 0 is any free one. */
  readonly tcp: Readonly<Record<string, number>>;
  readonly neighbours?: readonly Neighbour[] | undefined;
  readonly log: (text: string) => void;
}

export interface RunningWorkerd {
  readonly pid: number;
  /** By the name of the socket; `http` is one of them. */
  readonly ports: Readonly<Record<string, number>>;
  /** Ends the process (SIGKILL). Safe: everything a client was told is stored. */
  kill(): Promise<void>;
}

/** Runs workerd until standard input ends. That happens at the latest when the test process dies, however it dies. */
const GUARD = `
"$@" </dev/null &
echo "{\\"event\\":\\"pid\\",\\"pid\\":$!}" >&3
exec 3>&-
read -r _
kill -9 $!
wait $!
`;
const CONTROL_FD = 3;

/** Resolves once workerd accepts connections on all sockets. */
export async function startWorkerd(options: WorkerdOptions): Promise<RunningWorkerd> {
  const config = join(options.storage, "workerd.capnp");
  writeFileSync(config, configOf(options));
  const guard = spawn("sh", ["-c", GUARD, "sh", WORKERD, "serve", config, "-I/", `--control-fd=${CONTROL_FD}`], {
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  // "close", not "exit": by then all output has been read as well.
  const ended = new Promise<void>((resolve) => guard.once("close", () => resolve()));
  let output = "";
  for (const stream of [guard.stdout, guard.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      options.log(text);
    });
  const kill = async () => {
    guard.stdin.end();
    await ended;
  };
  const neighbours = options.neighbours?.map(({ name }) => name) ?? [];
  const started = await announced(guard, ["http", ...Object.keys(options.tcp), ...neighbours]);
  if (started) return { ...started, kill };
  await kill();
  throw new Error(`workerd did not start: ${output}`);
}

/** What workerd says about itself while it starts; undefined if it ends before all sockets are open. */
function announced(
  guard: ChildProcess,
  sockets: readonly string[],
): Promise<Pick<RunningWorkerd, "pid" | "ports"> | undefined> {
  const ports: Record<string, number> = {};
  let pid = 0;
  const control = guard.stdio[CONTROL_FD] as Readable;
  // The end of a process that was killed may look like an error on its pipes.
  for (const pipe of guard.stdio) pipe?.on("error", () => {});
  return new Promise((resolve) => {
    const lines = createInterface({ input: control });
    lines.on("error", () => {});
    lines.on("close", () => resolve(undefined));
    lines.on("line", (line) => {
      const message = JSON.parse(line) as { event: string; pid: number; socket: string; port: number };
      if (message.event === "pid") pid = message.pid;
      if (message.event === "listen") ports[message.socket] = message.port;
      if (pid > 0 && sockets.every((name) => name in ports)) resolve({ pid, ports });
    });
  });
}

function configOf({ worker, storage, variables, tcp, neighbours = [] }: WorkerdOptions): string {
  const { compatibilityDate } = worker;
  const textsOf = (all: Readonly<Record<string, string>>) =>
    Object.entries(all).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`);
  const sockets = [
    '(name = "http", address = "127.0.0.1:0", http = (), service = "main")',
    ...Object.entries(tcp).map(
      ([name, port]) => `(name = ${text(name)}, address = "127.0.0.1:${port}", tcp = (), service = "main")`,
    ),
    ...neighbours.map(
      ({ name }) => `(name = ${text(name)}, address = "127.0.0.1:0", http = (), service = ${text(name)})`,
    ),
  ];
  const services = neighbours.map(({ name }, index) => `(name = ${text(name)}, worker = .neighbour${index}),`);
  const bindingsOf = (wanted: Neighbour["services"]) =>
    Object.entries(wanted).map(([name, { service, entrypoint, props = {} }]) => {
      const json = text(JSON.stringify(props));
      const target = `(name = ${text(service)}, entrypoint = ${text(entrypoint)}, props = (json = ${json}))`;
      return `(name = ${text(name)}, service = ${target})`;
    });
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .holdfast), ${services.join(" ")}
    (name = "disk", disk = (path = ${text(storage)}, writable = true)),
    (name = "machine", network = (allow = ["private", "local"])),
  ],
  sockets = [${sockets.join(", ")}],
);
const holdfast :Workerd.Worker = ${workerConfig("holdfast", worker, compatibilityDate, textsOf(variables))};
${neighbours
  .map((each, index) => {
    const bindings = [...textsOf(each.variables ?? {}), ...bindingsOf(each.services)];
    const config = workerConfig(each.name, each, compatibilityDate, bindings);
    return `const neighbour${index} :Workerd.Worker = ${config};`;
  })
  .join("\n")}
`;
}

function workerConfig(
  name: string,
  { script, compatibilityFlags, objects }: Omit<Worker, "compatibilityDate">,
  compatibilityDate: string,
  bindings: readonly string[],
): string {
  const namespaces = objects.map(({ name: binding, class_name, script_name }) => {
    const service = script_name === undefined ? "" : `, serviceName = ${text(script_name)}`;
    return `(name = ${text(binding)}, durableObjectNamespace = (className = ${text(class_name)}${service}))`;
  });
  const own = objects.filter(({ script_name }) => script_name === undefined);
  const classes = own.map(({ class_name, has_no_sql }) => {
    const key = text(`${name}-${class_name}`);
    return `(className = ${text(class_name)}, uniqueKey = ${key}, enableSql = ${has_no_sql !== true})`;
  });
  return `(
  modules = [(name = "worker.js", esModule = embed ${text(script)})],
  compatibilityDate = ${text(compatibilityDate)},
  compatibilityFlags = [${compatibilityFlags.map(text).join(", ")}],
  bindings = [${[...namespaces, ...bindings].join(", ")}],
  durableObjectNamespaces = [${classes.join(", ")}],
  durableObjectStorage = (localDisk = "disk"),
  globalOutbound = "machine",
)`;
}

/** A Cap'n Proto string literal. */
function text(value: string): string {
  return `"${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
}
