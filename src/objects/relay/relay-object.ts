import { DurableObject } from "cloudflare:workers";
import type { RelayConfig } from "../../config.ts";
import type { RelayQuestion } from "../../engine/index.ts";
import { log } from "../../log.ts";
import { exchangesFences, type RelayReply, STAT, versionName } from "../../protocols/godistlock/relay.ts";
import type { Question, RelayEffect, Turn } from "../../relay/effects.ts";
import { orderOf } from "../../relay/nonces.ts";
import { type PeerView, Presence } from "../../relay/presence.ts";
import { type ProlongCommand, Relay } from "../../relay/relay.ts";
import { VERSION } from "../../version.ts";
import { answerClose } from "../calls/closing.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import { configOf, type Env } from "../env.ts";
import type { RoundStep } from "../key/rounds.ts";
import { type IncomingHost, IncomingSocket } from "./incoming-sockets.ts";
import { Link } from "./link.ts";
import type { RelayStub } from "./relay-name.ts";

export const KNOWN_HEADER = "X-Holdfast-Relay-Known";
export const RELAY_WINDOW_HEADER = "X-Holdfast-Relay-Window";

/** How long missing peers are waited for before a proposal is answered that there is no quorum. */
const SEARCH_MS = 500;
/** The outcome of such a search is kept for this long. */
const SEARCHED_MS = 5_000;

/**
 * The relay of this deployment. It holds the connections to and from its peers, runs the rounds for the keys of this
 * deployment, and passes what peers ask on to those keys. Nothing is stored here: what is held is held at the keys.
 * While nothing happens for a minute, it sleeps.
 */
export class RelayObject extends DurableObject<Env> implements RelayStub {
  readonly #config: RelayConfig;
  readonly #keys: RemoteKeys;
  readonly #relay: Relay;
  readonly #presence: Presence;
  readonly #links: ReadonlyMap<string, Link>;
  readonly #host: IncomingHost;
  readonly #incoming = new Map<WebSocket, IncomingSocket>();
  /** Locks for which a peer has proposed, to be freed if all its connections end. They end by themselves after a second. */
  readonly #proposals = new Map<string, Map<string, number>>();
  readonly #prolongations = new Map<string, (isAgreed: boolean) => void>();
  #calls = 0;
  #timer: { readonly at: number; readonly handle: ReturnType<typeof setTimeout> } | undefined;
  #search: { readonly at: number; readonly dials: readonly Promise<boolean>[] } | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { relay, readTimeoutMs } = configOf(env);
    if (!relay) throw new Error("this deployment has no peers");
    this.#config = relay;
    this.#keys = new RemoteKeys(env);
    const peers = relay.peers.map(({ id }) => id);
    const { need, token } = relay;
    this.#relay = new Relay({ peers, need, epoch: Date.now(), random: Math.random });
    this.#presence = new Presence(peers, need);
    const version = versionName(VERSION);
    this.#links = new Map(relay.peers.map((peer) => [peer.id, this.#linkTo(peer, version)]));
    this.#host = {
      identity: { id: relay.id, version, peers },
      token,
      readTimeoutMs,
      heard: (peer) => this.#presence.heard(peer, Date.now()),
      answer: (peer, asker, question) => this.#answer(peer, asker, question),
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

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    return this.#on(socket).received(message);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    await this.#closed(socket);
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#closed(socket);
  }

  async begin(turn: Turn & { readonly leaseMs: number }): Promise<void> {
    this.#relay.begin(turn, Date.now());
    this.#act();
  }

  async over(turn: Turn): Promise<void> {
    this.#relay.over(turn, Date.now());
    this.#act();
  }

  prolong(command: Omit<ProlongCommand, "call">): Promise<boolean> {
    const call = String(++this.#calls);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#prolongations.set(call, resolve);
    this.#relay.prolong({ ...command, call }, Date.now());
    this.#act();
    return promise;
  }

  /** Peers heard from in the last seconds. */
  async present(): Promise<readonly string[]> {
    return this.#presence.present(Date.now());
  }

  /** All peers. Silent ones are asked for a sign of life first. */
  async peers(): Promise<readonly PeerView[]> {
    const now = Date.now();
    if (this.#presence.missing(now).length > 0)
      await Promise.race([Promise.all(this.#seek(now)), scheduler.wait(SEARCH_MS)]);
    return this.#presence.view(Date.now());
  }

  #on(socket: WebSocket): IncomingSocket {
    const known = this.#incoming.get(socket);
    if (known) return known;
    const restored = IncomingSocket.restore(socket, this.#host);
    this.#incoming.set(socket, restored);
    return restored;
  }

  /** Preliminary holds end with the last connection of their relay. */
  async #closed(socket: WebSocket): Promise<void> {
    const peer = this.#on(socket).peer;
    this.#on(socket).closed();
    this.#incoming.delete(socket);
    if (peer === undefined) return;
    const others = this.ctx.getWebSockets().filter((other) => other !== socket && isOpen(other));
    if (others.some((other) => IncomingSocket.peerOn(other) === peer)) return;
    const locks = [...(this.#proposals.get(peer)?.keys() ?? [])];
    this.#proposals.delete(peer);
    const withdraw = (lock: string) => this.#keys.relay(lock, { relay: peer, type: "withdraw" });
    await Promise.all(locks.map(withdraw));
  }

  async #answer(peer: string, version: string, question: Question): Promise<RelayReply | undefined> {
    const hasFences = exchangesFences(version);
    const { nonce, lock, type } = question;
    if (type === "prop" && !(await this.#seesQuorum())) {
      return { type: "stat", nonce, status: STAT.noQuorum, ...(hasFences && { floor: 0n }) };
    }
    this.#noteProposal(peer, question);
    const answer = await this.#keys.relay(lock, questionOf(peer, question, hasFences));
    const isAgreed = answer?.status === "agreed";
    if (type === "off") return undefined;
    if (type !== "prop") return { type: type === "sched" ? "ack" : "conf", nonce, status: isAgreed ? 0 : 1 };
    const status = answer ? PROPOSAL_STATUS[answer.status] : STAT.noQuorum;
    return { type: "stat", nonce, status, ...(hasFences && { floor: answer?.floor ?? 0n }) };
  }

  #noteProposal(peer: string, { type, lock }: Question): void {
    const locks = this.#proposals.get(peer) ?? new Map<string, number>();
    this.#proposals.set(peer, locks);
    if (type === "prop" || type === "sched") locks.set(lock, Date.now());
    else locks.delete(lock);
    for (const [each, at] of locks) {
      if (Date.now() - at < SEARCHED_MS) break;
      locks.delete(each);
    }
  }

  /** Whether enough peers have been heard from. If not, the missing ones are asked for a sign of life first. */
  async #seesQuorum(): Promise<boolean> {
    const now = Date.now();
    if (this.#presence.seesQuorum(now)) return true;
    const dials = this.#seek(now);
    const isEnough = new Promise<void>((resolve) => {
      for (const dial of dials) void dial.then(() => this.#presence.seesQuorum(Date.now()) && resolve());
    });
    const leftMs = Math.max(0, (this.#search?.at ?? now) + SEARCH_MS - now);
    await Promise.race([isEnough, Promise.all(dials), scheduler.wait(leftMs)]);
    return this.#presence.seesQuorum(Date.now());
  }

  /** Asks the peers that have not been heard from, unless that was done a moment ago. */
  #seek(now: number): readonly Promise<boolean>[] {
    if (!this.#search || now - this.#search.at > SEARCHED_MS) {
      const missing = this.#presence.missing(now).flatMap((peer) => this.#links.get(peer) ?? []);
      this.#search = { at: now, dials: missing.map((link) => link.reach()) };
    }
    return this.#search.dials;
  }

  #linkTo(peer: RelayConfig["peers"][number], version: string): Link {
    const { id: ownId, token } = this.#config;
    return new Link({
      peer,
      ownId,
      version,
      token,
      heard: () => this.#presence.heard(peer.id, Date.now()),
      answered: (reply) => {
        this.#relay.heard(peer.id, reply, Date.now());
        this.#act();
      },
      lost: () => {
        this.#relay.unreachable(peer.id, Date.now());
        this.#act();
      },
    });
  }

  /** Does what the relay wants done, and wakes it when the next phase ends. */
  #act(): void {
    for (const effect of this.#relay.takeEffects()) this.#perform(effect);
    const at = this.#relay.nextWake;
    if (at === this.#timer?.at) return;
    clearTimeout(this.#timer?.handle ?? null);
    this.#timer = undefined;
    if (!Number.isFinite(at)) return;
    const ring = () => {
      this.#timer = undefined;
      this.#relay.tick(Date.now());
      this.#act();
    };
    this.#timer = { at, handle: setTimeout(ring, Math.max(0, at - Date.now())) };
  }

  #perform(effect: RelayEffect): void {
    switch (effect.type) {
      case "send":
        // Later, because a link that cannot be opened says so at once.
        queueMicrotask(() => this.#links.get(effect.peer)?.ask(effect.question));
        break;
      case "prolonged":
        this.#prolongations.get(effect.call)?.(effect.isAgreed);
        this.#prolongations.delete(effect.call);
        break;
      case "keep":
        this.#atKey(effect, { do: "keep" }, (isKept) => this.#relay.kept(effect, isKept === true, Date.now()));
        break;
      case "fence":
        this.#atKey(effect, { do: "fence", floor: effect.floor }, (fence) =>
          this.#relay.fenced(effect, typeof fence === "bigint" ? fence : undefined, Date.now()),
        );
        break;
      case "agree":
        // An outcome that is not known may be a grant: then the peers keep the lock until their time is up.
        this.#atKey(effect, { do: "agree" }, (isHeld) => this.#relay.agreed(effect, isHeld !== false, Date.now()));
        break;
      case "fail":
        this.#atKey(effect, { do: "fail", end: effect.end }, () => {});
    }
  }

  #atKey(
    { lock, request, mark }: Turn,
    step: StepWithout<RoundStep, keyof Turn>,
    reply: (outcome: bigint | boolean | undefined) => void,
  ): void {
    const call = async () => {
      const outcome = await this.#keys.round(lock, { ...step, request, mark }).catch((error: unknown) => {
        log("warn", "round_step_failed", { step: step.do, error: String(error) });
        return undefined;
      });
      reply(outcome);
      this.#act();
    };
    this.ctx.waitUntil(call());
  }
}

type StepWithout<Step, Key extends PropertyKey> = Step extends unknown ? Omit<Step, Key> : never;

const PROPOSAL_STATUS = {
  agreed: STAT.agreed,
  held: STAT.heldHere,
  held_for_another: STAT.heldForAnother,
  not_held: STAT.heldHere,
} as const;

function questionOf(relay: string, question: Question, hasFences: boolean): RelayQuestion {
  const order = hasFences ? orderOf(question.nonce) : undefined;
  const asker = { relay, ...(order !== undefined && { order }) };
  switch (question.type) {
    case "prop":
      return { ...asker, type: "propose" };
    case "sched":
      return { ...asker, type: "schedule" };
    case "off":
      return { ...asker, type: "off" };
    case "comm": {
      const { timeoutMs: leaseMs, fence } = question;
      return { ...asker, type: "commit", leaseMs, ...(hasFences && fence !== undefined && { fence }) };
    }
  }
}

function isOpen(socket: WebSocket): boolean {
  return socket.readyState === WebSocket.READY_STATE_OPEN;
}
