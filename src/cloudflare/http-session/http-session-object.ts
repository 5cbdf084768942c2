import { DurableObject } from "cloudflare:workers";
import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice } from "../../core/session/effects.ts";
import { log } from "../../log.ts";
import { answerClose, NO_CLOSE } from "../calls/closing.ts";
import type { Listener } from "../calls/notices.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import type { EffectHandlers } from "../session-common/session-runner.ts";
import { type Ask, type NewSession, type Performed, POLL_HEADER, type SignOfLife, type Withdrawal } from "./asks.ts";
import { Callers } from "./callers.ts";
import { type HttpSessionParts, httpSessionPartsOf } from "./parts.ts";
import { SessionLifecycle } from "./session-lifecycle.ts";

const GONE: Reply = { type: "gone" };

/** Hosts the session of one HTTP client: `PolledSession` decides, this object stores, calls and answers. */
export class HttpSessionObject extends DurableObject<Env> implements Listener {
  readonly #parts: HttpSessionParts;
  readonly #callers: Callers;
  readonly #lifecycle: SessionLifecycle;

  readonly #handlers: EffectHandlers = {
    reply: ({ id, outcome }) =>
      this.#callers.resolve(id, typeof outcome === "string" ? { type: outcome } : { type: "answered", outcome }),
    park: ({ id, key, wait }) =>
      this.#callers.resolve(id, { type: "parked", socket: this.#parts.polls.open({ id, key, type: wait }) }),
    tell: ({ id, outcome }) => this.#parts.polls.answer(id, outcome),
    withdrawn: ({ id }) => this.#callers.withdrawn(id),
    relabel: ({ label }) => this.#lifecycle.relabel(label),
    ended: () => this.#lifecycle.leave(),
    log: ({ level, event, fields }) => {
      if (level !== "debug") log(level, event, { ...fields });
    },
  };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#parts = httpSessionPartsOf(ctx, env, this.#handlers);
    this.#callers = new Callers(this.#parts);
    this.#lifecycle = new SessionLifecycle(this.#parts);
    const { session, wakeUp } = this.#parts;
    if (session.hasBegun) ctx.blockConcurrencyWhile(() => wakeUp.recall());
  }

  /** Opens the session unless a cap forbids it; a refused session leaves nothing behind. */
  async open({ address, label }: NewSession): Promise<{ readonly status: SessionAdmission }> {
    return { status: await this.#lifecycle.open(address, label) };
  }

  /** Notes that the client is alive, and what it has released. */
  async touch({ released }: SignOfLife = {}): Promise<{ readonly isThere: boolean }> {
    return { isThere: await this.#lifecycle.saw(undefined, released) };
  }

  /** Ends the session: once this resolves, everything it held is free. */
  async end({ released }: SignOfLife = {}): Promise<{ readonly wasThere: boolean }> {
    return { wasThere: await this.#lifecycle.end(released) };
  }

  /** Performs a request. One that has to wait for long goes on after this has returned: the client polls for it. */
  async perform({ id, request, label, released }: Ask): Promise<Performed> {
    const { session, keys } = this.#parts;
    if (!(await this.#lifecycle.saw(label, released)) || session.isOver) return GONE;
    if (session.context.callsInFlight === 0) keys.clientWaited();
    return (await this.#callers.result(id, () => session.begin(id, request))) as Performed;
  }

  /** Polls for a request that waits: the response is the answer as JSON, or the socket of a long poll. */
  override async fetch({ headers }: Request): Promise<Response> {
    const { session } = this.#parts;
    const id = headers.get(POLL_HEADER) ?? "";
    if (!(await this.#lifecycle.saw(undefined)) || session.isOver) return Response.json(GONE);
    const result = await this.#callers.result(id, () => session.poll(id));
    if (result.type !== "parked") return Response.json(result);
    return new Response(null, { status: 101, webSocket: result.socket });
  }

  /** Withdraws a request whose answer did not reach the client. `hasLeft`: because the client has hung up. */
  withdraw({ key, id, hasLeft = false }: Withdrawal): Promise<void> {
    return this.#callers.withdrawal(id, () => this.#parts.session.withdraw(id, key, { hasLeft }));
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    this.#pollClosed(socket, code);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#pollClosed(socket, NO_CLOSE);
  }

  override alarm(): Promise<void> {
    return this.#lifecycle.wake();
  }

  async deliver(notice: Notice): Promise<{ readonly answer: NoticeAnswer }> {
    const { session, runner, polls } = this.#parts;
    const isThere = !polls.isClosing(notice.request);
    return { answer: await runner.notice((number) => session.notice(number, notice, isThere)) };
  }

  async lose(loss: Loss): Promise<void> {
    const { session, runner } = this.#parts;
    runner.run(() => session.lose(loss));
  }

  /** Nothing in this protocol asks for it. */
  async want(): Promise<void> {}

  async isLive(): Promise<{ readonly isLive: boolean }> {
    return { isLive: this.#lifecycle.isLive() };
  }

  #pollClosed(socket: WebSocket, code: number): void {
    const { session, runner, polls } = this.#parts;
    const parked = polls.closed(socket);
    runner.run(() => session.pollClosed(parked, code === POLL_CLOSE.delivered));
  }
}
