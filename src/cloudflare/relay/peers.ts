import type { RelayConfig } from "../../core/config/config.ts";
import type { RelayPeer } from "../../core/config/relay-peers.ts";
import type { Question } from "../../core/group/effects.ts";
import { type PeerView, Presence } from "../../core/group/presence.ts";
import { Link, type LinkOptions } from "./link.ts";

/** How long missing peers are waited for before a proposal is answered that there is no quorum. */
const SEARCH_MS = 500;
/** The outcome of such a search is kept for this long. */
const SEARCHED_MS = 5_000;

/** The peers of this deployment: the connections to them, and which of them are there. */
export class Peers {
  readonly #presence: Presence;
  readonly #links: ReadonlyMap<string, Link>;
  #search: { readonly at: number; readonly dials: readonly Promise<boolean>[] } | undefined;

  /** `toldBy` says what is done with what a peer answers, and when the connection to it is lost. */
  constructor(
    { id: ownId, token, peers, need }: RelayConfig,
    version: string,
    toldBy: (peer: string) => Pick<LinkOptions, "answered" | "lost">,
  ) {
    const ids = peers.map(({ id }) => id);
    this.#presence = new Presence(ids, need);
    const linkTo = (peer: RelayPeer) =>
      new Link({ peer, ownId, version, token, heard: () => this.heard(peer.id), ...toldBy(peer.id) });
    this.#links = new Map(peers.map((peer) => [peer.id, linkTo(peer)]));
  }

  ask(peer: string, question: Question): void {
    this.#links.get(peer)?.ask(question);
  }

  heard(peer: string): void {
    this.#presence.heard(peer, Date.now());
  }

  present(): readonly string[] {
    return this.#presence.present(Date.now());
  }

  /** All peers. Silent ones are asked for a sign of life first. */
  async view(): Promise<readonly PeerView[]> {
    const now = Date.now();
    if (this.#presence.missing(now).length > 0)
      await Promise.race([Promise.all(this.#seek(now)), scheduler.wait(SEARCH_MS)]);
    return this.#presence.view(Date.now());
  }

  /** Whether enough peers have been heard from. If not, the missing ones are asked for a sign of life first. */
  async seesQuorum(): Promise<boolean> {
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
}
