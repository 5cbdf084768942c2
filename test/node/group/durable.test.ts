/** Other deployments hear nothing that may not be true after a crash. */
import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import { readConfig } from "../../../src/core/config/config.ts";
import type { Dial } from "../../../src/core/group/dial.ts";
import type { Connection } from "../../../src/node/clients.ts";
import { joinGroup } from "../../../src/node/group/group.ts";
import { NodeHost } from "../../../src/node/host.ts";
import { VOLATILE_STORE } from "../../../src/node/store/memory.ts";
import type { Store } from "../../../src/node/store/store.ts";
import { systemRuntime } from "../../../src/node/system/runtime.ts";
import { poll, sleep } from "../../support/poll.ts";
import { Client, TOKEN } from "./deployments.ts";

/** A host with two peers that are played by the test. `events` are commits and what was said, in order. */
class Stage {
  readonly events: string[] = [];
  isDiskFull = false;
  readonly host: NodeHost;
  readonly #group;

  constructor() {
    const variables = { RELAY_ID: "s0", RELAY_PEERS: "s1=tcp://a:1,s2=tcp://b:2", RELAY_TOKEN: TOKEN };
    const result = readConfig(variables);
    assert.ok(result.ok);
    const store: Store = {
      ...VOLATILE_STORE,
      isVolatile: false,
      commit: (write) => {
        if (this.isDiskFull) throw new Error("the disk is full");
        VOLATILE_STORE.commit(write);
        this.events.push("commit");
      },
    };
    const failed = (error: unknown) => assert.fail(String(error));
    this.host = new NodeHost({ config: result.config, store, runtime: systemRuntime(), log: () => {}, failed });
    const group = joinGroup(this.host, this.#dial);
    assert.ok(group);
    this.#group = group;
    this.host.load();
  }

  /** A connection of a peer. What it hears are events, too. */
  peer(id: string): Connection {
    const connection = this.#connect(id, true);
    say(connection, `HELLO ${id} 1.0.0 h`);
    return connection;
  }

  /** A connection without a token. */
  stranger(): Connection {
    return this.#connect("stranger", false);
  }

  #connect(id: string, isKnown: boolean): Connection {
    const admission = this.#group.admit({ address: "::1", isKnown, hasWindow: false });
    assert.ok(typeof admission !== "string");
    return admission.attach({
      send: (lines) => this.events.push(...lines.map((line) => `${id} hears ${line.trimEnd()}`)),
      acknowledge: () => {},
      close: (code) => this.events.push(`${id} closed ${code}`),
      pause: () => {},
      resume: () => {},
    });
  }

  /** Opens the connections to the peers. */
  async linked(): Promise<void> {
    const peers = await this.#group.peers();
    expect(peers.every(({ isPresent }) => isPresent)).toBe(true);
  }

  async seen(event: string): Promise<readonly string[]> {
    await poll(event, 3_000, async () => this.events.includes(event) || undefined);
    return this.events;
  }

  stop(): void {
    this.#group.stop();
    this.host.stop();
  }

  /** Each peer introduces itself, and answers nothing. */
  readonly #dial: Dial = ({ url }, { opened, received }) => {
    const id = url === "tcp://a:1" ? "s1" : "s2";
    setImmediate(() => {
      opened();
      received(new TextEncoder().encode(`HOWDY hello ${id} 1.0.0\n`));
    });
    return {
      send: (text) => {
        for (const [, keyword, lock] of text.matchAll(/^(PROP|OFF) (\S+) /gm))
          this.events.push(`${id} is asked ${keyword} ${lock}`);
      },
      close: () => {},
    };
  };
}

const say = (connection: Connection, line: string) => connection.received(new TextEncoder().encode(`${line}\n`));

describe("a host of a group", () => {
  it("asks others about a round only once the round is stored", async () => {
    const stage = new Stage();
    await stage.linked();
    new Client(stage.host).send("ON foo 60000");
    const events = await stage.seen("s1 is asked PROP foo");
    expect(events.indexOf("commit")).toBeGreaterThanOrEqual(0);
    expect(events.indexOf("commit")).toBeLessThan(events.indexOf("s1 is asked PROP foo"));
    stage.stop();
  });

  it("asks nobody about a round that could not be stored", async () => {
    const stage = new Stage();
    await stage.linked();
    stage.isDiskFull = true;
    new Client(stage.host).send("ON foo 60000");
    await sleep(0.3);
    expect(stage.events).toEqual([]);
    stage.stop();
  });

  it("answers a proposal only once the hold is stored", async () => {
    const stage = new Stage();
    const peer = stage.peer("s1");
    await stage.seen("s1 hears HOWDY h s0 holdfast/0.1.0");
    stage.events.length = 0;
    say(peer, "PROP foo a");
    expect(await stage.seen("s1 hears STAT a 0")).toEqual(["commit", "s1 hears STAT a 0"]);
    stage.stop();
  });

  it("says nothing about a hold that could not be stored, and closes the connection", async () => {
    const stage = new Stage();
    const [peer, other] = [stage.peer("s1"), stage.peer("s2")];
    await stage.seen("s2 hears HOWDY h s0 holdfast/0.1.0");
    stage.events.length = 0;
    stage.isDiskFull = true;
    say(peer, "PROP foo a");
    expect(await stage.seen("s1 closed 1012")).toEqual(["s1 closed 1012"]);
    peer.closed(1006);
    // As long as nothing can be stored, nothing is promised.
    say(other, "PROP foo b");
    expect(await stage.seen("s2 hears STAT b 3")).toEqual(["s1 closed 1012", "s2 hears STAT b 3"]);
    stage.isDiskFull = false;
    await poll("storage to work again", 3_000, async () => stage.host.isWell || undefined);
    say(other, "PROP foo c");
    await stage.seen("s2 hears STAT c 0");
    stage.stop();
  });

  it("answers all questions that come at once with one commit, in order", async () => {
    const stage = new Stage();
    const peer = stage.peer("s1");
    await stage.seen("s1 hears HOWDY h s0 holdfast/0.1.0");
    stage.events.length = 0;
    say(peer, "PROP a 1\nPROP b 2\nSCHED a 3\nCOMM a 5000 4\nOFF b 5\nPROP c 6");
    const replies = ["STAT 1 0", "STAT 2 0", "ACK 3 0", "CONF 4 0", "STAT 6 0"].map((line) => `s1 hears ${line}`);
    await stage.seen("s1 hears STAT 6 0");
    expect(stage.events).toEqual(["commit", ...replies]);
    stage.stop();
  });

  it("ends what a peer has proposed with its last connection, and keeps what it has committed", async () => {
    const stage = new Stage();
    const [one, two, other] = [stage.peer("s1"), stage.peer("s1"), stage.peer("s2")];
    say(one, "PROP loose x\nPROP firm x\nCOMM firm 60000 y");
    await stage.seen("s1 hears CONF y 0");
    one.closed(1000);
    say(other, "PROP loose a");
    await stage.seen("s2 hears STAT a 2");
    two.closed(1000);
    say(other, "PROP loose b\nPROP firm c");
    await stage.seen("s2 hears STAT b 0");
    await stage.seen("s2 hears STAT c 2");
    stage.stop();
  });

  it("lets nobody ask who has not shown the token", async () => {
    const stage = new Stage();
    say(stage.stranger(), "PROP foo a");
    await stage.seen("stranger closed 4401");
    expect(stage.events).toEqual(["stranger hears ERR - auth-required", "stranger closed 4401"]);
    stage.stop();
  });
});
