import type { RelayConfig } from "../config/config.ts";
import type { RelayPeer } from "../config/relay-peers.ts";
import type { Clock, Dial } from "./dial.ts";
import type { Question } from "./effects.ts";
import { Link, type LinkOptions } from "./link.ts";
import { type PeerView, Presence } from "./presence.ts";

/** How long missing peers are waited for before a proposal is answered that there is no quorum. */
const SEARCH_MS = 500;
/** The outcome of such a search is kept for this long. */
const SEARCHED_MS = 5_000;

export interface PeersOptions {
  readonly config: RelayConfig;
  readonly version: string;
  readonly dial: Dial;
  readonly clock: Clock;
  /** What is done with what a peer answers, and when the connection to it is lost. */
  toldBy(peer: string): Pick<LinkOptions, "answered" | "lost">;
}

/** Peers that were asked for a sign of life. */
interface Search {
  readonly at: number;
  /** Peers that have neither answered nor turned out to be unreachable. */
  open: number;
  readonly watchers: Set<() => void>;
}

/** The peers of this deployment: the connections to them, and which of them are there. */
export class Peers {
  readonly #clock: Clock;
  readonly #presence: Presence;
  readonly #links: ReadonlyMap<string, Link>;
  #search: Search | undefined;

  constructor({ config, version, dial, clock, toldBy }: PeersOptions) {
    const { id: ownId, token, peers, need } = config;
    this.#clock = clock;
    this.#presence = new Presence(
      peers.map(({ id }) => id),
      need,
    );
    const linkTo = (peer: RelayPeer) =>
      new Link({ peer, ownId, version, token, dial, clock, heard: () => this.heard(peer.id), ...toldBy(peer.id) });
    this.#links = new Map(peers.map((peer) => [peer.id, linkTo(peer)]));
  }

  ask(peer: string, question: Question): void {
    this.#links.get(peer)?.ask(question);
  }

  heard(peer: string): void {
    this.#presence.heard(peer, this.#clock.now());
  }

  present(): readonly string[] {
    return this.#presence.present(this.#clock.now());
  }

  /** Tells of all peers. Silent ones are asked for a sign of life first. */
  view(told: (peers: readonly PeerView[]) => void): void {
    const areAllPresent = () => this.#presence.missing(this.#clock.now()).length === 0;
    this.#seek(areAllPresent, () => told(this.#presence.view(this.#clock.now())));
  }

  /** Whether enough peers have been heard from. If not, the missing ones are asked for a sign of life first. */
  seesQuorum(told: (isSeen: boolean) => void): void {
    const isSeen = () => this.#presence.seesQuorum(this.#clock.now());
    this.#seek(isSeen, () => told(isSeen()));
  }

  /** Closes all connections for good. */
  shut(): void {
    for (const link of this.#links.values()) link.shut();
  }

  /** Asks the peers that have not been heard from, unless that was done a moment ago or enough have been. */
  #seek(isEnough: () => boolean, done: () => void): void {
    if (isEnough()) {
      done();
      return;
    }
    const search = this.#currentSearch();
    const look = () => {
      if (search.open > 0 && !isEnough()) return;
      cancel();
      finish();
    };
    const finish = () => {
      if (search.watchers.delete(look)) done();
    };
    search.watchers.add(look);
    const leftMs = Math.max(0, search.at + SEARCH_MS - this.#clock.now());
    const cancel = this.#clock.after(leftMs, finish);
    look();
  }

  #currentSearch(): Search {
    const now = this.#clock.now();
    if (this.#search && now - this.#search.at <= SEARCHED_MS) return this.#search;
    const missing = this.#presence.missing(now).flatMap((peer) => this.#links.get(peer) ?? []);
    const search: Search = { at: now, open: missing.length, watchers: new Set() };
    this.#search = search;
    for (const link of missing)
      link.reach(() => {
        search.open -= 1;
        for (const look of [...search.watchers]) look();
      });
    return search;
  }
}
