import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";

/** A `holdfast serve` of its own process, on free ports, with its data in the folder. Ends when it is disposed. */
export async function startServed(
  command: string,
  folder: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  return startServer(command, ["--godistlock-port", "0", "--data-dir", join(folder, "data")]);
}

interface StartedServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly httpPort: number;
  readonly pid: number;
}

/** The same with these flags; the ports of dflockd and HTTP are free ones. */
export async function startServer(
  command: string,
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<StartedServer> {
  const [port, httpPort] = [await freePort(), await freePort()];
  const ports = ["--port", `${port}`, "--http-port", `${httpPort}`];
  const child = spawn(process.execPath, [command, "serve", ...ports, ...flags], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  await Promise.race([once(child.stdout, "data"), exited]);
  if (child.exitCode !== null) throw new Error("the server did not start");
  return {
    url: `http://127.0.0.1:${httpPort}`,
    port,
    httpPort,
    pid: child.pid ?? 0,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
