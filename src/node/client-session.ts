import { authenticateSecret } from "../core/auth/principal.ts";
import { ReceiveWindow } from "../core/protocols/carrier/window.ts";
import type { Outcome } from "../core/protocols/statuses.ts";
import type { Effect, Notice, Want } from "../core/session/effects.ts";
import { SocketSession } from "../core/session/socket-session.ts";
import { CLOSE } from "../core/session/wire/protocol.ts";
import { ownerIdOf } from "../core/session-names.ts";
import { ReportQueue } from "../reports/report-queue.ts";
import type { ClientEntry } from "../service.ts";
import type { Carrier, Connection } from "./clients.ts";
import type { Input } from "./input.ts";
import { Session, type SessionStart } from "./session.ts";
import type { SessionHost } from "./session-host.ts";

/** Tells a client that a fault of ours has cost it its connection: it may resume. */
const FAULT = 1012;
/** Requests that wait for their turn: beyond this, the next piece of input waits. */
const MAX_BACKLOG_BYTES = 16_384;

/** The session of one client on a socket. */
export class ClientSession extends Session {
  protected readonly machine: SocketSession;
  readonly #reports: ReportQueue;
  readonly #address: string;
  #carrier: Carrier | undefined;
  #input: Input | undefined;
  #arrival: ClientEntry | undefined;
  /** Lines to be sent once the batch is durable. */
  #unsent: (() => string | undefined)[] = [];
  readonly #window = new ReceiveWindow();
  #received = 0;
  #acknowledged = 0;
  /** Attempts to resume, by number: told whether they are refused, and why. */
  readonly #attempts = new Map<number, (refusal: string | undefined) => void>();
  #lastAttempt = 0;

  constructor(host: SessionHost, start: SessionStart) {
    super(host, start);
    this.machine = new SocketSession(host.originOf(start.name, this.records));
    this.#reports = new ReportQueue((ms, callback) => host.after(ms, callback));
    this.#address = start.address;
  }

  /** A client is connecting. */
  opening(isOpening: boolean): void {
    this.run(() => this.machine.opening(isOpening));
  }

  /** The client vanished before its connection was open. */
  abandon(): void {
    this.run(() => {
      this.machine.opening(false);
      this.machine.end();
    });
  }

  /** The client's connection is open. */
  attach(carrier: Carrier, arrival: ClientEntry): Connection {
    // Its batch has failed since the client was let in.
    if (this.isDropped) carrier.close(FAULT);
    this.#carrier = carrier;
    this.#arrival = arrival;
    this.#received = 0;
    this.#acknowledged = 0;
    const { protocol, isAuthenticated, rights, address, hasWindow } = arrival;
    const resumableFrom = hasWindow || arrival.transport === "tcp" ? undefined : address;
    this.host.batch.enter(() => {
      if (this.machine.isOver) {
        // It came too late.
        this.#closeAfterwards(carrier, CLOSE.gone);
        return;
      }
      this.run(() => this.machine.opened({ protocol, isAuthenticated, rights, resumableFrom }));
      this.#debug("session_opened", { transport: arrival.transport });
    });
    this.#input = this.host.inputs.open({
      isCurrent: () => this.#carrier === carrier && !this.isDropped,
      isBehind: () => this.#isBehind,
      pause: () => carrier.pause(),
      resume: () => carrier.resume(),
      take: (bytes) => {
        this.#received += bytes.length;
        this.run(() => this.machine.received(bytes));
      },
      heard: () => this.run(() => this.machine.heard()),
      sentTooMuch: () => this.run(() => this.machine.close(CLOSE.tooLong)),
      closed: (code) => this.#closed(code),
    });
    return this.#input;
  }

  /** Resolves with the reason if the client may not resume the session. Otherwise its connection is to be opened. */
  resume(hasSecret: boolean): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#lastAttempt += 1;
    const attempt = this.#lastAttempt;
    this.#attempts.set(attempt, resolve);
    this.host.batch.enter(() => {
      if (this.isDropped) resolve("unavailable");
      else this.run(() => this.machine.resume(attempt, hasSecret));
    });
    return promise;
  }

  /** The secret that a client must show to resume it. */
  get secret(): string | undefined {
    return this.machine.resumption.secret;
  }

  get hasConversation(): boolean {
    return this.machine.conversation !== undefined;
  }

  /** The session was read again, and has lost its socket. Its client may be back already. */
  revive(): void {
    this.run(() => {
      const { resumption, isOver, hasClient } = this.machine;
      if (resumption.isOn && !isOver && !hasClient) this.machine.loseSocket();
    });
    this.run(() => this.machine.wake());
  }

  want(want: Want): void {
    this.run(() => this.machine.want(want));
  }

  override drop(): void {
    super.drop();
    this.#carrier?.close(FAULT);
    this.#carrier = undefined;
    for (const settle of this.#attempts.values()) settle("unavailable");
  }

  protected takeNotice(number: number, notice: Notice): void {
    this.machine.notice(number, notice);
  }

  protected handle(effect: Effect): void {
    const { batch } = this.host;
    switch (effect.type) {
      case "send":
        if (this.#unsent.length === 0) this.#flushAfterwards();
        this.#unsent.push(this.#lineOf(effect));
        break;
      case "close": {
        const carrier = this.#carrier;
        const { code } = effect;
        this.#carrier = undefined;
        this.#closeAfterwards(carrier, code);
        break;
      }
      case "detached":
        this.#carrier = undefined;
        break;
      case "resumed": {
        const { attempt, refusal } = effect;
        const settle = this.#attempts.get(attempt);
        this.#attempts.delete(attempt);
        if (settle)
          batch.afterwards(
            () => settle(refusal),
            () => settle("unavailable"),
          );
        break;
      }
      case "ended":
        this.host.unlisted(this);
        this.#debug("session_ended");
        break;
      case "authenticate":
        void this.#authenticate(effect.secret);
        break;
      case "report":
        this.#report(effect);
        break;
      case "count":
        this.host.count(effect.happening, this.transport);
        break;
      case "log":
        if (effect.level === "debug") this.#debug(effect.event, effect.fields);
        else this.host.log(effect.level, effect.event, { ...effect.fields });
        break;
    }
  }

  protected override progressed(): void {
    this.#input?.proceed();
    const { conversation } = this.machine;
    if (!conversation || this.machine.isOver) return;
    if (conversation.isKnown) this.wakeBy(conversation.readDeadline);
    if (!this.#arrival?.hasWindow || !this.#carrier) return;
    const consumed = this.#received - conversation.unconsumed;
    const frame = this.#window.consumed(consumed - this.#acknowledged);
    this.#acknowledged = consumed;
    if (!frame) return;
    const carrier = this.#carrier;
    this.host.batch.afterwards(() => carrier.acknowledge(frame));
  }

  /** A long line that is still incomplete does not count: it ends only if more is read. */
  get #isBehind(): boolean {
    const { conversation, requests } = this.machine;
    return conversation !== undefined && conversation.backlogBytes > MAX_BACKLOG_BYTES && !requests.table.isBlocked;
  }

  #flushAfterwards(): void {
    const carrier = this.#carrier;
    this.host.batch.afterwards(
      () => {
        const lines = this.#unsent;
        this.#unsent = [];
        const told: string[] = [];
        for (const lineNow of lines) {
          const line = lineNow();
          if (line !== undefined) told.push(line);
        }
        if (told.length > 0) carrier?.send(told);
      },
      () => {
        this.#unsent = [];
      },
    );
  }

  #closeAfterwards(carrier: Carrier | undefined, code: number): void {
    this.host.batch.afterwards(
      () => carrier?.close(code),
      () => carrier?.close(FAULT),
    );
  }

  /** What is sent once the batch is durable; undefined if that is too late, and the session answers in another way. */
  #lineOf({ line, grant }: Extract<Effect, { readonly type: "send" }>): () => string | undefined {
    if (!grant) return () => line;
    const runs = this.leaseOf(grant.key, grant.token);
    return () => {
      if (runs()) return line;
      if ("lateLine" in grant) return grant.lateLine;
      this.host.batch.enter(() => this.run(grant.late));
      return undefined;
    };
  }

  /** The client has closed its connection, or has lost it. */
  #closed(code: number): void {
    const { machine } = this;
    this.#carrier = undefined;
    if (machine.survives(code, machine.conversation?.isKnown ?? true)) this.run(() => machine.detach());
    else this.run(() => machine.end());
  }

  #report({ id, ask, scope }: Extract<Effect, { readonly type: "report" }>): void {
    const { host, machine } = this;
    const isWanted = () => !this.isDropped && !machine.isOver && machine.requests.table.get(id) !== undefined;
    const reported = (outcome: Outcome) => {
      if (isWanted()) this.run(() => machine.requests.reported(id, outcome));
    };
    const made = (outcome: Outcome) => host.batch.enter(() => reported(outcome));
    this.#reports.add({ isWanted, make: () => host.report(ask, { scope, address: this.#address }), made });
  }

  /** The answer concerns the client that asked, not one that has taken its place since. */
  async #authenticate(secret: Uint8Array): Promise<void> {
    const asker = this.machine.conversation;
    const principal = await authenticateSecret(this.host.config, secret);
    this.host.batch.enter(() => {
      if (this.machine.conversation === asker) this.run(() => this.machine.authenticated(principal));
    });
  }

  #debug(event: string, fields: object = {}): void {
    if (this.host.config.debug) this.host.log("debug", event, { session: ownerIdOf(this.name), ...fields });
  }
}
