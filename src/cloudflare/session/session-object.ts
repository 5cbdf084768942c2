import { DurableObject } from "cloudflare:workers";
import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice, Want } from "../../core/session/effects.ts";
import { logged } from "../../log.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { SharedWakeUp } from "../awake/shared-wake-up.ts";
import { WakeUp } from "../awake/wake-up.ts";
import { isShared } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { OwnRows, SharedRows } from "../session-common/session-rows.ts";
import { StorageHealth } from "../storage-probe.ts";
import { SESSION_HEADER } from "../transports/client-entry.ts";
import type { HostPlace } from "./host-place.ts";
import { SessionHost } from "./session-host.ts";
import { SessionSocket } from "./session-socket.ts";

const SETTLE_TOGETHER_MS = 5;

/**
 * Where sessions live that have a socket: one in an object of its own, or a few that share one (ADR 23). Each has a host
 * of its own, which is made when something concerns it.
 */
export class SessionObject extends DurableObject<Env> {
  readonly #hosts = new Map<string, SessionHost>();
  /** Saves reading a socket's attachment with each message. */
  readonly #hostOfSocket = new WeakMap<WebSocket, SessionHost>();
  /** Set if several sessions share the object. */
  readonly #shared: { readonly rows: SharedRows; readonly wakeUp: SharedWakeUp } | undefined;

  /** Undefined if nobody has asked since the last began. */
  #settling: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    if (isShared(this.#name)) {
      const health = new StorageHealth(env);
      const wakeUp = new SharedWakeUp(ctx.storage, {
        mayStore: () => health.mayStore() === true,
        ring: () => ctx.waitUntil(this.alarm().catch(logged("session_alarm_failed"))),
      });
      this.#shared = { wakeUp, rows: new SharedRows(ctx.storage, (session) => wakeUp.deletedWith(session)) };
      ctx.blockConcurrencyWhile(async () => {
        await wakeUp.recall();
        // Clients that have outlived a sleep may have stored nothing: only their sockets tell when they want to be woken.
        for (const socket of ctx.getWebSockets()) if (!SessionSocket.isClosed(socket)) this.#hostOn(socket);
      });
    } else this.#hostOf(this.#name);
  }

  /** Opens a session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch(request: Request): Promise<Response> {
    return this.#hostOf(request.headers.get(SESSION_HEADER) ?? this.#name).open(request);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    return this.#hostOn(socket).message(socket, message);
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#hostOn(socket).closed(socket, code);
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#hostOn(socket).broken(socket);
  }

  override async alarm(): Promise<void> {
    if (!this.#shared) return this.#hostOf(this.#name).wake();
    const { rows, wakeUp } = this.#shared;
    const woken = wakeUp.fired(
      () => rows.sessions(),
      (session) => this.#hostOf(session).wake(),
    );
    // Not awaited: the next alarm fires only when this one has ended, and a session may take long to leave its keys.
    this.ctx.waitUntil(woken);
    await this.ctx.storage.sync();
    // It was set for sessions that were lost with their sockets: leaves an empty database, and rests.
    if (this.#hosts.size === 0) await this.#hostOf(this.#name).wake();
  }

  /** Without a session, this and what follows is about the only one here. */
  deliver(notice: Notice, session = this.#name): Promise<NoticeAnswer> {
    return this.#hostOf(session).deliver(notice);
  }

  lose(loss: Loss, session = this.#name): Promise<void> {
    return this.#hostOf(session).lose(loss);
  }

  want(want: Want, session = this.#name): Promise<void> {
    return this.#hostOf(session).want(want);
  }

  isLive(session = this.#name): Promise<boolean> {
    return this.#hostOf(session).isLive();
  }

  get #name(): string {
    // Objects of this class are only ever addressed by name.
    return this.ctx.id.name as string;
  }

  #hostOf(session: string): SessionHost {
    const known = this.#hosts.get(session);
    if (known) return known;
    const host = new SessionHost(this.#placeOf(session), this.env, () => this.env.SELF_HOSTED !== undefined);
    this.#hosts.set(session, host);
    return host;
  }

  #hostOn(socket: WebSocket): SessionHost {
    const known = this.#hostOfSocket.get(socket);
    if (known && this.#hosts.get(known.session) === known) return known;
    const host = this.#hostOf(SessionSocket.sessionOf(socket) ?? this.#name);
    this.#hostOfSocket.set(socket, host);
    return host;
  }

  #placeOf(session: string): HostPlace {
    const { ctx } = this;
    const shared = this.#shared;
    return {
      session,
      rows: shared ? shared.rows.of(session) : new OwnRows(ctx.storage),
      wakeUp: shared ? shared.wakeUp.of(session) : new WakeUp(ctx.storage),
      isShared: shared !== undefined,
      autoResponse: shared ? undefined : ctx,
      sockets: () =>
        shared ? ctx.getWebSockets().filter((each) => SessionSocket.sessionOf(each) === session) : ctx.getWebSockets(),
      accept: (socket) => ctx.acceptWebSocket(socket),
      waitUntil: (task) => ctx.waitUntil(task),
      settled: () => this.#settled(),
      rest: () => this.#rest(session),
      abandon: async () => {
        await ctx.storage.sync();
        if (this.#isAlone(session)) ctx.abort("session over");
      },
    };
  }

  /** For all sessions that ask within a few milliseconds at once: a flood of calls for sessions that are gone makes many. */
  #settled(): Promise<void> {
    this.#settling ??= scheduler.wait(SETTLE_TOGETHER_MS).then(() => {
      this.#settling = undefined;
      return settled(this.ctx);
    });
    return this.#settling;
  }

  #rest(session: string): void {
    const isAlone = this.#isAlone(session);
    this.#hosts.get(session)?.stop();
    this.#hosts.delete(session);
    // An alarm that hits a resting object fires late.
    if (isAlone && !this.#shared?.wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) rest(this.ctx);
  }

  /** No other session has a host or a socket here. */
  #isAlone(session: string): boolean {
    if (!this.#shared) return true;
    for (const other of this.#hosts.keys()) if (other !== session) return false;
    return this.ctx.getWebSockets().every((socket) => SessionSocket.sessionOf(socket) === session);
  }
}
