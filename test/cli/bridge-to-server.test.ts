import { describe, expect, test } from "vitest";
import { eventually, freePort, holdfast, type RunningServe, startServe, TcpClient } from "./support.ts";

async function startBridgeTo(server: RunningServe, args: string[] = []) {
  const port = await freePort();
  const to = `ws://127.0.0.1:${server.httpPort}/v1/ws`;
  const running = holdfast(["bridge", "--listen", `127.0.0.1:${port}`, "--to", to, ...args]);
  await eventually("the ready line", () => running.stdout.includes("\n"));
  return Object.assign(running, { port });
}

describe("a client behind a bridge", () => {
  test("stands in the same queue as one that connects directly", async () => {
    const server = await startServe();
    const bridge = await startBridgeTo(server);
    const bridged = await TcpClient.open(bridge.port);
    bridged.socket.write("l\ndeploy\n0\n");
    await eventually("the grant", () => /^ok \S+ 33\n$/.test(bridged.text));
    const direct = await TcpClient.open(server.port);
    direct.socket.write("l\ndeploy\n30\n");
    const token = bridged.text.split(" ")[1];
    bridged.socket.write(`r\ndeploy\n${token}\n`);
    await eventually("the release", () => bridged.text.endsWith("\nok\n"));
    await eventually("the next grant", () => /^ok \S+ 33\n$/.test(direct.text));
  });

  test("gets its answer through a half-closed pipe", async () => {
    const server = await startServe();
    const bridge = await startBridgeTo(server);
    const client = await TcpClient.open(bridge.port);
    client.socket.end("ping\n_\n_\n");
    await eventually("the end", () => client.hasEnded);
    expect(client.text).toBe("ok\n");
  });

  test("gets an answer to each of many requests sent without waiting", async () => {
    const server = await startServe();
    const bridge = await startBridgeTo(server);
    const client = await TcpClient.open(bridge.port);
    const requests = 30_000;
    client.socket.write("ping\n_\n_\n".repeat(requests));
    await eventually("all replies", () => client.received.length === requests * 3 || client.hasEnded, 50_000);
    expect(client.text).toBe("ok\n".repeat(requests));
  });

  test("loses its locks when the bridge is killed", async () => {
    const server = await startServe();
    const bridge = await startBridgeTo(server);
    const bridged = await TcpClient.open(bridge.port);
    bridged.socket.write("l\ndeploy\n0 600\n");
    await eventually("the grant", () => /^ok \S+ 600\n$/.test(bridged.text));
    const direct = await TcpClient.open(server.port);
    direct.socket.write("l\ndeploy\n30\n");
    bridge.child.kill("SIGKILL");
    await eventually("the next grant", () => /^ok \S+ 33\n$/.test(direct.text));
    await eventually("the end", () => bridged.hasEnded || bridged.isClosed);
  });
});
