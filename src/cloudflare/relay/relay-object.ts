import { DurableObject } from "cloudflare:workers";
import type { RelayAnswer, RelayQuestion, RoundStep } from "../../core/engine/index.ts";
import type { Continuation } from "../../core/group/dial.ts";
import type { RelayEffect, RoundId } from "../../core/group/effects.ts";
import type { IncomingHost } from "../../core/group/incoming-connection.ts";
import { PeerQuestions } from "../../core/group/peer-questions.ts";
import { Peers } from "../../core/group/peers.ts";
import type { PeerView } from "../../core/group/presence.ts";
import { type ProlongCommand, Relay } from "../../core/group/relay.ts";
import { versionName } from "../../core/protocols/godistlock/relay.ts";
import { log } from "../../log.ts";
import { VERSION } from "../../version.ts";
import { WakeTimer } from "../alarms/wake-timer.ts";
import { answerClose } from "../calls/closing.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import { CLOCK, dial } from "./dial.ts";
import { IncomingSocket } from "./incoming-sockets.ts";
import { KNOWN_HEADER, RELAY_WINDOW_HEADER, type RelayStub } from "./relay-name.ts";

/** What is done at the key of a round. */
type RoundEffect = Extract<RelayEffect, { readonly type: RoundStep["do"] }>;

/**
 * The relay of this deployment. It holds the connections to and from its peers, runs the rounds for the keys of this
 * deployment, and passes what peers ask on to those keys. Nothing is stored here: what is held is held at the keys.
 * While nothing happens for a minute, it sleeps.
 */
export class RelayObject extends DurableObject<Env> implements RelayStub {
  readonly #keys: RemoteKeys;
  readonly #relay: Relay;
  readonly #peers: Peers;
  readonly #questions: PeerQuestions;
  readonly #host: IncomingHost;
  readonly #incoming = new Map<WebSocket, IncomingSocket>();
  readonly #prolongations = new Map<string, (isAgreed: boolean) => void>();
  readonly #timer = new WakeTimer(() => this.#run((now) => this.#relay.tick(now)));
  #calls = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { relay: config, readTimeoutMs } = configOf(env);
    if (!config) throw new Error("this deployment has no peers");
    const { id, token, need } = config;
    const peers = config.peers.map((peer) => peer.id);
    const version = versionName(VERSION);
    this.#keys = new RemoteKeys(env);
    this.#relay = new Relay({ peers, need, epoch: Date.now(), random: Math.random });
    this.#peers = new Peers({
      config,
      version,
      dial,
      clock: CLOCK,
      toldBy: (peer) => ({
        answered: (reply) => this.#run((now) => this.#relay.heard(peer, reply, now)),
        lost: () => this.#run((now) => this.#relay.unreachable(peer, now)),
      }),
    });
    const keys = {
      relay: (lock: string, question: RelayQuestion, { done, failed }: Continuation<RelayAnswer | null>) =>
        ctx.waitUntil(
          this.#keys.command(lock, { type: "relay", question }).then((answer) => done(answer ?? null), failed),
        ),
    };
    this.#questions = new PeerQuestions(keys, this.#peers, CLOCK.now);
    this.#host = {
      identity: { id, version, peers },
      token,
      readTimeoutMs,
      clock: CLOCK,
      heard: (peer) => this.#peers.heard(peer),
      answer: (peer, asker, question, reply) => this.#questions.answer(peer, asker, question, reply),
      failed: (error) => log("error", "relay_request_failed", { error: String(error) }),
    };
  }

  /** Opens a connection of another deployment. */
  override async fetch({ headers }: Request): Promise<Response> {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.ctx.acceptWebSocket(ours);
    const isKnown = headers.has(KNOWN_HEADER);
    const hasWindow = headers.has(RELAY_WINDOW_HEADER);
    this.#incoming.set(ours, IncomingSocket.open(ours, this.#host, { isKnown, hasWindow }));
    return new Response(null, { status: 101, webSocket: theirs });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    this.#on(socket).received(message);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    this.#closed(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#closed(socket);
  }

  async begin(round: RoundId & { readonly leaseMs: number }): Promise<void> {
    this.#run((now) => this.#relay.begin(round, now));
  }

  async over(round: RoundId): Promise<void> {
    this.#run((now) => this.#relay.over(round, now));
  }

  async prolong(command: Omit<ProlongCommand, "call">): Promise<{ readonly isAgreed: boolean }> {
    const call = String(++this.#calls);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#prolongations.set(call, resolve);
    this.#run((now) => this.#relay.prolong({ ...command, call }, now));
    return { isAgreed: await promise };
  }

  /** Peers heard from in the last seconds. */
  async present(): Promise<{ readonly ids: readonly string[] }> {
    return { ids: this.#peers.present() };
  }

  /** All peers. Silent ones are asked for a sign of life first. */
  async peers(): Promise<{ readonly peers: readonly PeerView[] }> {
    return { peers: await new Promise((resolve) => this.#peers.view(resolve)) };
  }

  #on(socket: WebSocket): IncomingSocket {
    const known = this.#incoming.get(socket);
    if (known) return known;
    const restored = IncomingSocket.restore(socket, this.#host);
    this.#incoming.set(socket, restored);
    return restored;
  }

  /** Preliminary holds end with the last connection of their relay. */
  #closed(socket: WebSocket): void {
    const peer = this.#on(socket).peer;
    this.#on(socket).closed();
    this.#incoming.delete(socket);
    if (peer === undefined) return;
    const isOpen = ({ readyState }: WebSocket) => readyState === WebSocket.READY_STATE_OPEN;
    const others = this.ctx.getWebSockets().filter((other) => other !== socket && isOpen(other));
    if (others.some((other) => IncomingSocket.peerOn(other) === peer)) return;
    this.#questions.left(peer, { done: () => {}, failed: this.#host.failed });
  }

  /** Runs a command now, then its effects, and wakes the relay when the next phase ends. */
  #run(command: (now: number) => void): void {
    command(Date.now());
    for (const effect of this.#relay.takeEffects()) this.#perform(effect);
    this.#timer.at(this.#relay.nextWake);
  }

  #perform(effect: RelayEffect): void {
    if (effect.type === "send") {
      // Later, because a link that cannot be opened says so at once.
      queueMicrotask(() => this.#peers.ask(effect.peer, effect.question));
    } else if (effect.type === "prolonged") {
      this.#prolongations.get(effect.call)?.(effect.isAgreed);
      this.#prolongations.delete(effect.call);
    } else this.ctx.waitUntil(this.#atKey(effect));
  }

  async #atKey(effect: RoundEffect): Promise<void> {
    const { lock, type, ...step } = effect;
    const command = { type: "round", step: { ...step, do: type } as RoundStep } as const;
    const outcome = await this.#keys.command(lock, command).catch((error: unknown) => {
      log("warn", "round_step_failed", { step: type, error: String(error) });
      return undefined;
    });
    this.#run((now) => {
      if (type === "keep") this.#relay.kept(effect, outcome === true, now);
      else if (type === "fence") this.#relay.fenced(effect, typeof outcome === "bigint" ? outcome : undefined, now);
      // An outcome that is not known may be a grant: then the peers keep the lock until their time is up.
      else if (type === "agree") this.#relay.agreed(effect, outcome !== false, now);
    });
  }
}
