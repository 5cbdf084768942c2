/** Node hosts in this process that form a group over real sockets, and clients of theirs. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { WebSocketServer } from "ws";
import { readConfig } from "../../../src/core/config/config.ts";
import type { Dial } from "../../../src/core/group/dial.ts";
import { ALL_BUT_ADMIN } from "../../../src/core/session/rights.ts";
import type { Carrier, Connection } from "../../../src/node/clients.ts";
import { type JoinedGroup, joinGroup } from "../../../src/node/group/group.ts";
import { NodeHost } from "../../../src/node/host.ts";
import { dial } from "../../../src/node/listeners/dial.ts";
import type { Runtime } from "../../../src/node/runtime.ts";
import { VOLATILE_STORE } from "../../../src/node/store/memory.ts";
import type { Store } from "../../../src/node/store/store.ts";
import { systemRuntime } from "../../../src/node/system/runtime.ts";
import { freePort } from "../../cli/support.ts";

export const TOKEN = "a-token-of-the-group";

export interface DeploymentOptions {
  readonly id: string;
  /** Where the others find it. */
  readonly port: number;
  readonly peers: string;
  readonly scheme?: "tcp" | "ws";
  /** Opened at every start. */
  readonly store?: () => Store;
}

/** One deployment, which can be dropped like a killed process and started again. */
export class Deployment {
  readonly #options: DeploymentOptions;
  #life: Life | undefined;

  constructor(options: DeploymentOptions) {
    this.#options = options;
  }

  get life(): Life {
    assert.ok(this.#life, "the deployment is down");
    return this.#life;
  }

  get group(): JoinedGroup {
    return this.life.group;
  }

  async start(): Promise<void> {
    this.#life = await Life.begin(this.#options);
  }

  /** Everything stops between two instructions; connections are reset. */
  async drop(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    await life?.end();
  }

  client(): Client {
    return new Client(this.life.host);
  }
}

class Life {
  readonly host: NodeHost;
  readonly group: JoinedGroup;
  readonly #store: Store;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isOver = false;

  private constructor({ id, peers, scheme = "tcp", store = () => VOLATILE_STORE }: DeploymentOptions) {
    const result = readConfig({ RELAY_ID: id, RELAY_PEERS: peers, RELAY_TOKEN: TOKEN });
    assert.ok(result.ok);
    this.#store = store();
    const fail = (error: unknown) => {
      throw error;
    };
    this.host = new NodeHost({
      config: result.config,
      store: this.#store,
      runtime: this.#mortal(systemRuntime()),
      log: () => {},
      failed: fail,
    });
    const group = joinGroup(this.host, this.#dial);
    assert.ok(group);
    this.group = group;
    this.host.load();
    this.#server = scheme === "tcp" ? this.#tcpServer() : this.#webSocketServer();
    this.#server.on("connection", (socket: Socket) => this.#sockets.add(socket.on("error", () => {})));
  }

  static async begin(options: DeploymentOptions): Promise<Life> {
    const life = new Life(options);
    life.#server.listen(options.port, "127.0.0.1");
    await once(life.#server, "listening");
    return life;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    this.host.stop();
    this.#server.close();
    for (const socket of this.#sockets) socket.resetAndDestroy();
    this.group.stop();
    this.#store.close();
    await once(this.#server, "close");
  }

  #mortal(runtime: Runtime): Runtime {
    const whileAlive = (callback: () => void) => () => {
      if (!this.#isOver) callback();
    };
    return {
      ...runtime,
      whenQuiet: (callback, arrived) => runtime.whenQuiet(whileAlive(callback), arrived),
      after: (ms, callback) => runtime.after(ms, whileAlive(callback)),
    };
  }

  /** The dead hear nothing and say nothing. */
  readonly #dial: Dial = (target, { opened, received, closed }) => {
    const carrier = dial(target, {
      opened: () => this.#isOver || opened(),
      received: (bytes) => this.#isOver || received(bytes),
      closed: () => this.#isOver || closed(),
    });
    return { send: (text) => this.#isOver || carrier.send(text), close: () => carrier.close() };
  };

  #tcpServer(): Server {
    return createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      const connection = this.#attach(false, {
        send: (lines) => socket.write(lines.join("")),
        acknowledge: () => {},
        close: () => socket.end(),
        pause: () => socket.pause(),
        resume: () => socket.resume(),
      });
      socket
        .on("data", (bytes) => connection.received(bytes))
        .on("end", () => connection.inputEnded())
        .on("close", () => this.#isOver || connection.closed(1000));
    });
  }

  #webSocketServer(): Server {
    const server = createHttpServer();
    const sockets = new WebSocketServer({ server, path: "/v1/godistlock/relay" });
    sockets.on("connection", (socket, { headers }) => {
      const connection = this.#attach(headers.authorization === `Bearer ${TOKEN}`, {
        send: (lines) => {
          for (const line of lines) socket.send(line);
        },
        acknowledge: () => {},
        close: (code) => socket.close(code),
        pause: () => socket.pause(),
        resume: () => socket.resume(),
      });
      socket
        .on("message", (data: Buffer) => connection.received(data))
        .on("close", (code) => this.#isOver || connection.closed(code));
    });
    return server;
  }

  #attach(isKnown: boolean, carrier: Carrier): Connection {
    const admission = this.group.admit({ address: "127.0.0.1", isKnown, hasWindow: false });
    assert.ok(typeof admission !== "string");
    return admission.attach(carrier);
  }
}

/** A group of deployments `s0`, `s1`, … that list each other. */
export class Deployments implements AsyncDisposable {
  readonly all: readonly Deployment[];

  private constructor(all: readonly Deployment[]) {
    this.all = all;
  }

  /** `portFor` is the port by which the others find a deployment, if not its own. */
  static async start(
    size: number,
    {
      scheme = "tcp",
      store,
      portFor = (_, port) => port,
    }: {
      readonly scheme?: "tcp" | "ws";
      readonly store?: (index: number) => Store;
      readonly portFor?: (index: number, port: number) => number | Promise<number>;
    } = {},
  ): Promise<Deployments> {
    const ports = await Promise.all(Array.from({ length: size }, freePort));
    const found = await Promise.all(ports.map((port, index) => portFor(index, port)));
    const peers = found.map((port, index) => `s${index}=${scheme}://127.0.0.1:${port}`).join(",");
    const all = ports.map(
      (port, index) =>
        new Deployment({ id: `s${index}`, port, peers, scheme, ...(store && { store: () => store(index) }) }),
    );
    await Promise.all(all.map((each) => each.start()));
    return new Deployments(all);
  }

  at(index: number): Deployment {
    const deployment = this.all[index];
    assert.ok(deployment);
    return deployment;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((each) => each.drop()));
  }
}

/** A godistlock client. */
export class Client {
  readonly #connection: Connection;
  readonly #lines: string[] = [];
  #arrived = () => {};
  #nonce = 0;
  isClosed = false;

  constructor(host: NodeHost) {
    const admission = host.sessions.admit({
      protocol: "godistlock",
      transport: "tcp",
      address: "127.0.0.1",
      isAuthenticated: false,
      rights: ALL_BUT_ADMIN,
      label: undefined,
      hasWindow: false,
    });
    assert.ok(typeof admission !== "string");
    this.#connection = admission.attach({
      send: (lines) => {
        this.#lines.push(...lines.map((line) => line.trimEnd()));
        this.#arrived();
      },
      acknowledge: () => {},
      close: () => {
        this.isClosed = true;
        this.#arrived();
      },
      pause: () => {},
      resume: () => {},
    });
  }

  /** The reply to a request, without its nonce. */
  ask(request: string, withinMs = 10_000): Promise<string> {
    return this.answer(this.send(request), withinMs);
  }

  send(request: string): string {
    this.#nonce += 1;
    const nonce = `n${this.#nonce}`;
    this.#connection.received(new TextEncoder().encode(`${request} ${nonce}\n`));
    return nonce;
  }

  async answer(nonce: string, withinMs = 10_000): Promise<string> {
    const end = performance.now() + withinMs;
    for (;;) {
      const at = this.#lines.findIndex((line) => line.split(" ")[1] === nonce);
      const [line] = at < 0 ? [] : this.#lines.splice(at, 1);
      if (line !== undefined) return line.replace(` ${nonce}`, "");
      const leftMs = end - performance.now();
      assert.ok(leftMs > 0, `no reply to ${nonce} within ${withinMs} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#arrived = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  leave(): void {
    this.#connection.closed(1000);
  }
}

/** The fence of a `GIVE`. */
export function given(reply: string): bigint {
  const [, fence] = /^GIVE ([0-9]+)$/.exec(reply) ?? [];
  assert.ok(fence, `GIVE, not ${reply}`);
  return BigInt(fence);
}
