/** A peer counts as present for this long after its last line. */
const HEARD_MS = 10_000;

/** One peer, as it was last heard from. */
export interface PeerView {
  readonly id: string;
  /** It counts towards a quorum. */
  readonly isPresent: boolean;
  /** Undefined if nothing has been heard since the relay last slept. */
  readonly silentMs: number | undefined;
}

/** Which peers have been heard from, and whether that makes a quorum. */
export class Presence {
  readonly #peers: readonly string[];
  readonly #need: number;
  readonly #heardAt = new Map<string, number>();

  constructor(peers: readonly string[], need: number) {
    this.#peers = peers;
    this.#need = need;
  }

  heard(peer: string, now: number): void {
    this.#heardAt.set(peer, now);
  }

  present(now: number): string[] {
    return this.#peers.filter((peer) => this.#isPresent(peer, now));
  }

  missing(now: number): string[] {
    return this.#peers.filter((peer) => !this.#isPresent(peer, now));
  }

  seesQuorum(now: number): boolean {
    return 1 + this.present(now).length >= this.#need;
  }

  view(now: number): PeerView[] {
    return this.#peers.map((id) => {
      const at = this.#heardAt.get(id);
      return { id, isPresent: this.#isPresent(id, now), silentMs: at === undefined ? at : Math.max(0, now - at) };
    });
  }

  #isPresent(peer: string, now: number): boolean {
    const at = this.#heardAt.get(peer);
    return at !== undefined && now - at <= HEARD_MS;
  }
}
