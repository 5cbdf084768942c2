import { randomHex } from "../../core/hex.ts";
import { ReceiveWindow } from "../../core/protocols/carrier/window.ts";
import { GODISTLOCK_STATE_VERSION } from "../../core/session/godistlock/protocol.ts";
import { ALL_BUT_ADMIN } from "../../core/session/rights.ts";
import type { SocketConversation, SocketState } from "../../core/session/socket-conversation.ts";
import { STATE_VERSION } from "../../core/session/wire/protocol.ts";
import type { ClientEntry } from "../../service.ts";
import { closeSocket } from "../calls/closing.ts";
import type { KeyAttachment, SessionStore } from "../session-common/session-store.ts";

/** State up to this size is saved immediately; larger state at most once per interval. */
const LIGHT_BYTES = 2_048;
const SAVE_EVERY_MS = 250;

/** What is kept with the socket while the object sleeps. Without `state`, the state is in storage. */
interface Attachment {
  readonly id: string;
  readonly entry: ClientEntry;
  readonly state: SocketState | undefined;
  /** Keys that the session has used; absent if there are none. */
  readonly keys?: readonly string[];
  /** The server has closed it; the client may not have answered that yet. */
  readonly isClosed?: true;
}

/** One socket of a session: its input and output, and the state kept with it while the object sleeps. */
export class SessionSocket implements KeyAttachment {
  readonly entry: ClientEntry;
  readonly #id: string;
  readonly #socket: WebSocket;
  readonly #store: SessionStore;
  readonly #window = new ReceiveWindow();
  /** Lines for a carrier, to be sent when the current event has been handled. */
  #unsent: string[] = [];
  #said = 0;
  #received = 0;
  #acknowledged = 0;
  #savedRevision: number | undefined;
  #isSpilled = false;
  /** As attached; undefined until something is. */
  #attached: Attachment | undefined;
  #keys: readonly string[] = [];
  #saveTimer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;
  /** By the server. */
  #isClosed = false;

  private constructor(socket: WebSocket, store: SessionStore, { id, entry }: Pick<Attachment, "id" | "entry">) {
    this.#socket = socket;
    this.#store = store;
    this.#id = id;
    this.entry = entry;
  }

  static open(socket: WebSocket, store: SessionStore, entry: ClientEntry): SessionSocket {
    return new SessionSocket(socket, store, { id: randomHex(8), entry });
  }

  /** The connection of a socket that has outlived a sleep, and its saved state unless that has another version. */
  static restore(
    socket: WebSocket,
    store: SessionStore,
  ): { readonly restored: SessionSocket; readonly state: SocketState | undefined } {
    const attachment = socket.deserializeAttachment() as Attachment;
    const restored = new SessionSocket(socket, store, attachment);
    restored.#isSpilled = attachment.state === undefined;
    restored.#attached = attachment;
    restored.#keys = attachment.keys ?? [];
    const state = attachment.state ?? (store.spilled() as SocketState | undefined);
    return { restored, state: state && isReadable(state) ? state : undefined };
  }

  /** How the client of a socket connected; for a socket that wakes its object by closing, this is the only source. */
  static entryOf(socket: WebSocket): ClientEntry | undefined {
    return (socket.deserializeAttachment() as Attachment | null)?.entry;
  }

  /** Whether the server has closed the socket: it is no longer the session's, even if its client goes on sending. */
  static isClosed(socket: WebSocket): boolean {
    return (socket.deserializeAttachment() as Attachment | null)?.isClosed === true;
  }

  /** The phase that the client of such a socket had reached. */
  static phaseOf(socket: WebSocket, store: SessionStore): SocketState["phase"] | undefined {
    const attachment = socket.deserializeAttachment() as Attachment | null;
    const state = attachment?.state ?? (store.spilled() as SocketState | undefined);
    return state?.phase;
  }

  /** The keys that were kept with such a socket. */
  static keysOf(socket: WebSocket): readonly string[] {
    return (socket.deserializeAttachment() as Attachment | null)?.keys ?? [];
  }

  /** The keys that were kept with the socket when it was restored. */
  get keys(): readonly string[] {
    return this.#keys;
  }

  attachKeys(keys: ReadonlySet<string>): boolean {
    const before = this.#keys;
    this.#keys = [...keys];
    // What has not been attached yet will be before the object can sleep.
    if (!this.#attached) return true;
    try {
      this.#attach(this.#attached.state);
      return true;
    } catch {
      // An attachment holds at most 16 KiB.
      this.#keys = before;
      return false;
    }
  }

  isOn(socket: WebSocket): boolean {
    return socket === this.#socket || (socket.deserializeAttachment() as Attachment | null)?.id === this.#id;
  }

  /** The conversation has been built from what was saved. */
  restored(conversation: SocketConversation): void {
    this.#savedRevision = conversation.revision;
    this.#acknowledged = -conversation.unconsumed;
  }

  /** Number of lines sent. */
  get said(): number {
    return this.#said;
  }

  /** Sends one line. A client gets each in its own frame; a carrier, which only wants bytes, in as few as possible. */
  send(line: string): void {
    if (this.#isOver) return;
    this.#said += 1;
    if (this.entry.hasWindow) this.#unsent.push(line);
    else this.#socket.send(line);
  }

  flush(): void {
    if (this.#unsent.length === 0 || this.#isOver) return;
    this.#socket.send(this.#unsent.join(""));
    this.#unsent = [];
  }

  heard(bytes: number): void {
    this.#received += bytes;
  }

  /** Saves what a sleep would lose, and tells the carrier how much has been consumed. */
  progressed(conversation: SocketConversation): void {
    this.flush();
    if (conversation.revision !== this.#savedRevision) this.#saveInTime(conversation);
    if (!this.entry.hasWindow || this.#isOver) return;
    const consumed = this.#received - conversation.unconsumed;
    const frame = this.#window.consumed(consumed - this.#acknowledged);
    this.#acknowledged = consumed;
    if (frame) this.#socket.send(frame);
  }

  /** The socket is gone or about to be. */
  end(): void {
    this.#isOver = true;
  }

  close(code: number): void {
    this.flush();
    this.end();
    this.#markClosed();
    closeSocket(this.#socket, code);
  }

  #markClosed(): void {
    this.#isClosed = true;
    try {
      this.#attach(this.#attached?.state);
    } catch {
      // An attachment holds at most 16 KiB.
      this.#attach(undefined);
    }
  }

  #save({ state, revision }: SocketConversation): void {
    this.#savedRevision = revision;
    try {
      this.#attach(state);
      if (this.#isSpilled) this.#store.unspill();
      this.#isSpilled = false;
    } catch {
      // An attachment holds at most 16 KiB.
      this.#store.spill(state);
      if (!this.#isSpilled) this.#attach(undefined);
      this.#isSpilled = true;
    }
  }

  #attach(state: SocketState | undefined): void {
    // The rights are part of the state too, which may be too large for a socket.
    const entry = { ...this.entry, rights: ALL_BUT_ADMIN };
    const attachment = {
      id: this.#id,
      entry,
      state,
      ...(this.#keys.length > 0 && { keys: this.#keys }),
      ...(this.#isClosed && ({ isClosed: true } as const)),
    };
    this.#socket.serializeAttachment(attachment satisfies Attachment);
    this.#attached = attachment;
  }

  /**
   * Saves small state immediately. A long backlog is not rewritten with every message behind it: the pending timer
   * keeps the object awake until it is saved, and what is lost in a crash is lost with the socket.
   */
  #saveInTime(conversation: SocketConversation): void {
    if (conversation.weight <= LIGHT_BYTES) this.#save(conversation);
    else {
      this.#saveTimer ??= setTimeout(() => {
        this.#saveTimer = undefined;
        if (!this.#isOver) this.#save(conversation);
      }, SAVE_EVERY_MS);
    }
  }
}

function isReadable(state: SocketState): boolean {
  return state.version === ("protocol" in state ? GODISTLOCK_STATE_VERSION : STATE_VERSION);
}
