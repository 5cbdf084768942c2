/** Plays a transcript against a running server. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { HOSTS } from "../support/hosts.ts";
import { Silence } from "../support/silence.ts";
import { type Listening, listenAs, type Place, type Speaker, speakTo, type Transport } from "./speaker.ts";
import type { Step, Transcript, Use } from "./transcript.ts";

export const RELAY_TOKEN = "a-token-of-the-group";
/** How much later than a transcript says something may come on a busy machine. */
const TOLERANCE_MS = 1_000;
const CLOSED_WITHIN_MS = 3_000;

export interface Ports {
  readonly tcpPort: number;
  readonly httpPort: number;
  readonly relayPort: number;
  readonly godistlockPort: number;
}

/** Every transcript is played over both transports, on both hosts. */
export const EVERY_WAY = HOSTS.flatMap((host) => (["tcp", "ws"] as const).map((transport) => ({ host, transport })));

export class Player {
  readonly #transcript: Transcript;
  readonly #transport: Transport;
  readonly #speakers = new Map<string, Speaker>();
  readonly #listening = new Map<string, Listening>();
  readonly #bound = new Map<string, string>();
  readonly #silence = new Silence();
  #ports: Ports | undefined;

  constructor(transcript: Transcript, transport: Transport) {
    this.#transcript = transcript;
    this.#transport = transport;
  }

  /** The variables of the server: peers that are played are listened for, at the others' addresses nothing answers. */
  async prepare(): Promise<Record<string, string>> {
    const { peers, uses, variables } = this.#transcript;
    if (peers.length === 0) return { ...variables };
    const urls = new Map(peers.map((id) => [id, "ws://127.0.0.1:9"]));
    for (const [who, use] of uses) {
      if (use.kind !== "listen") continue;
      const listening = await listenAs(this.#transport);
      this.#listening.set(who, listening);
      urls.set(use.id, listening.url);
    }
    const list = Array.from(urls, ([id, url]) => `${id}=${url}`).join(",");
    return { ...variables, RELAY_ID: "s0", RELAY_PEERS: list, RELAY_TOKEN };
  }

  async play(ports: Ports): Promise<void> {
    this.#ports = ports;
    try {
      // Before the first step: on a busy machine connecting takes time that a story has not allowed for.
      const names = new Set(this.#transcript.steps.flatMap((step) => ("who" in step ? [step.who] : [])));
      for (const who of names) if (this.#transcript.uses.get(who)?.kind !== "listen") await this.#speaker(who);
      for (const step of this.#transcript.steps) await this.#take(step);
    } finally {
      for (const speaker of this.#speakers.values()) speaker.close();
    }
  }

  async end(): Promise<void> {
    for (const listening of this.#listening.values()) await listening[Symbol.asyncDispose]();
  }

  async #take(step: Step): Promise<void> {
    const listening = "who" in step && !this.#speakers.has(step.who) ? this.#listening.get(step.who) : undefined;
    if (step.do === "sleep") {
      this.#silence.pauses(step.ms);
      await sleep(step.ms);
    } else if (step.do === "expectNothing" && listening) {
      this.#silence.pauses(step.ms);
      await sleep(step.ms);
      assert.equal(listening.hasCaller, false, `${step.who} expects nobody to connect`);
    } else if (step.do === "compare") this.#compare(step);
    else {
      const speaker = await this.#speaker(step.who);
      switch (step.do) {
        case "send":
          this.#silence.acts();
          speaker.send(new TextEncoder().encode(this.#filled(step.text) + (step.isRaw ? "" : "\n")));
          break;
        case "expect":
          this.#match(step.who, await this.#line(speaker, step.who, step.withinMs, step.pattern), step.pattern);
          break;
        case "expectAny":
          await this.#skip(speaker, step);
          break;
        case "expectNothing": {
          const arrival = await speaker.inbox.takeBefore(this.#silence.pauses(step.ms));
          assert.equal(arrival && JSON.stringify(arrival), undefined, `${step.who} expects nothing`);
          break;
        }
        case "expectClosed": {
          const arrival = await this.#silence.awaits(speaker.inbox.take(CLOSED_WITHIN_MS));
          assert.equal(arrival?.kind, "end", `${step.who} is closed, not ${JSON.stringify(arrival)}`);
          break;
        }
        case "close":
          this.#silence.acts();
          speaker.close();
          break;
        case "endInput":
          this.#silence.acts();
          speaker.endInput();
      }
    }
  }

  readonly #unread = new Map<Speaker, string>();

  async #skip(speaker: Speaker, { who, pattern }: Extract<Step, { do: "expectAny" }>): Promise<void> {
    for (;;) {
      const line = await this.#line(speaker, who, 5_000, pattern);
      if (!this.#pattern(pattern).test(line)) {
        this.#unread.set(speaker, line);
        return;
      }
    }
  }

  async #line(speaker: Speaker, who: string, withinMs: number, what: string): Promise<string> {
    const unread = this.#unread.get(speaker);
    this.#unread.delete(speaker);
    if (unread !== undefined) return unread;
    const arrival = await this.#silence.awaits(speaker.inbox.take(withinMs + TOLERANCE_MS));
    assert.equal(arrival?.kind, "line", `${who} expects ${what}, not ${JSON.stringify(arrival)}`);
    return arrival.kind === "line" ? arrival.line : "";
  }

  async #speaker(who: string): Promise<Speaker> {
    const known = this.#speakers.get(who);
    if (known) return known;
    const use = this.#transcript.uses.get(who);
    const speaker = use?.kind === "listen" ? await this.#dialled(who, use) : await speakTo(this.#placeOf(use));
    this.#speakers.set(who, speaker);
    if (use?.kind === "relay" && use.id !== undefined) await this.#introduce(speaker, who, use.id, use.version);
    return speaker;
  }

  /** Waits for the server to dial the peer that is played here, and checks how it introduces itself. */
  async #dialled(who: string, { version, id }: Extract<Use, { kind: "listen" }>): Promise<Speaker> {
    const speaker = await (this.#listening.get(who) as Listening).accept();
    const say = (text: string) => speaker.send(new TextEncoder().encode(`${text}\n`));
    if (this.#transport === "tcp") {
      const [, token, nonce] = (await this.#line(speaker, who, 1_000, "AUTH")).split(" ");
      assert.equal(token, RELAY_TOKEN);
      say(`HOWDY ${nonce} ${id} ${version}`);
    }
    const [keyword, own, ownVersion, nonce] = (await this.#line(speaker, who, 1_000, "HELLO")).split(" ");
    assert.deepEqual([keyword, own], ["HELLO", "s0"]);
    assert.match(ownVersion ?? "", /^holdfast\//);
    say(`HOWDY ${nonce} ${id} ${version}`);
    return speaker;
  }

  async #introduce(speaker: Speaker, who: string, id: string, version: string): Promise<void> {
    speaker.send(new TextEncoder().encode(`AUTH ${RELAY_TOKEN} auth\nHELLO ${id} ${version} hello\n`));
    this.#match(who, await this.#line(speaker, who, 2_000, "HOWDY"), "HOWDY auth s0 {version}");
    this.#match(who, await this.#line(speaker, who, 2_000, "HOWDY"), "HOWDY hello s0 {version}");
  }

  #placeOf(use: Use | undefined): Place {
    const { tcpPort, httpPort, relayPort, godistlockPort } = this.#ports as Ports;
    if (use?.kind === "dflockd") return { port: tcpPort };
    const isRelay = use?.kind === "relay";
    if (this.#transport === "tcp") return { port: isRelay ? relayPort : godistlockPort };
    return isRelay
      ? { port: httpPort, path: "/v1/godistlock/relay", subprotocol: "godistlock-relay.v1" }
      : { port: httpPort, path: "/v1/godistlock", subprotocol: "godistlock.v1" };
  }

  #filled(text: string): string {
    return text
      .replaceAll("{relay-token}", RELAY_TOKEN)
      .replace(/\{rep:(.),([0-9]+)\}/g, (_, character: string, count: string) => character.repeat(Number(count)))
      .replace(/\{(?:fence|token|nonce):(\w+)\}/g, (_, name: string) => this.#valueOf(name));
  }

  #match(who: string, line: string, pattern: string): void {
    const match = this.#pattern(pattern).exec(line);
    assert.ok(match, `${who} expects ${pattern}, not ${line}`);
    for (const [name, value] of Object.entries(match.groups ?? {})) this.#bound.set(name, value);
  }

  #pattern(pattern: string): RegExp {
    const parts = this.#filledIfBound(pattern).split(/(\{[^}]+\})/);
    const source = parts.map((part) => {
      const [, kind = "", name] = /^\{(\w+)(?::(\w+))?\}$/.exec(part) ?? [];
      if (kind === "") return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const shape = SHAPES[kind as keyof typeof SHAPES];
      return name ? `(?<${name}>${shape})` : shape;
    });
    return new RegExp(`^${source.join("")}$`);
  }

  #filledIfBound(pattern: string): string {
    return pattern.replace(/\{(?:fence|token|nonce):(\w+)\}/g, (whole, name: string) => this.#bound.get(name) ?? whole);
  }

  #compare({ left, sign, right }: Extract<Step, { do: "compare" }>): void {
    const [a, b] = [this.#number(left), this.#number(right)];
    const holds = { ">": a > b, "<": a < b, "==": a === b, "!=": a !== b }[sign];
    assert.ok(holds, `${left} ${sign} ${right}: ${a} ${sign} ${b}`);
  }

  #number(text: string): bigint {
    const fence = /^fence\((\w+)\)$/.exec(text)?.[1];
    if (fence) return BigInt(`0x${this.#valueOf(fence).slice(0, 16)}`);
    return BigInt(/^[0-9]+$/.test(text) ? text : this.#valueOf(text));
  }

  #valueOf(name: string): string {
    const value = this.#bound.get(name);
    if (value === undefined) throw new Error(`${name} is not known yet`);
    return value;
  }
}

const SHAPES = {
  id: "[^ ]+",
  version: "holdfast/[^ ]+",
  word: "[^ ]+",
  nonce: "[^ ]+",
  int: "[0-9]+",
  fence: "[1-9][0-9]*",
  token: "[0-9a-f]{32}",
} as const;
