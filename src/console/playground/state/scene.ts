import { connect, type Locks } from "../../../client/index.ts";
import { isKey } from "../../../client/wire.ts";
import { serviceAddress } from "../../shared/address.ts";
import { nameOf } from "../../shared/words.ts";
import type { ClientEvent } from "./event.ts";
import { type SeenGrant, withGrant } from "./grants.ts";
import { type LogLine, logged } from "./log.ts";
import { Pause } from "./pause.ts";
import { Player, type Standing, type Terms } from "./player.ts";
import { aheadOf, type Position, placeOf } from "./position.ts";
import { type ProtectedResource, UNWRITTEN, written } from "./resource.ts";
import { advance, BEGINNING, type Story } from "./story.ts";
import { type KeySnapshot, KeyWatch } from "./watch.ts";
import { blindnessInWords } from "./words.ts";

export const NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"] as const;
const AT_FIRST = 3;
const LETTERS = "abcdefghijkmnpqrstuvwxyz";
const ENGAGED: ReadonlySet<Standing["kind"]> = new Set(["enqueuing", "enqueued", "waiting", "holding", "releasing"]);

export interface SceneOptions {
  readonly token: string | undefined;
  readonly changed: () => void;
}

/** The state of the playground: clients, a key, and the resource that the key protects. */
export class Scene {
  readonly #options: SceneOptions;
  /** Distinguishes this page's clients from those of other visitors on the same key. */
  readonly #tag = fourLetters();
  readonly #observer: Locks;
  readonly #watch: KeyWatch;
  /** Queue places that were logged, by the standing that they began with. */
  readonly #announced = new WeakSet<Standing>();
  readonly #cameUp = new WeakSet<Standing>();
  #players: readonly Player[] = [];
  #terms: Terms = { key: `playground/${this.#tag}`, limit: 1, leaseMs: 15_000 };
  #generatedKey = this.#terms.key;
  #keyProblem: string | undefined;
  #snapshot: KeySnapshot | undefined;
  #sightProblem: string | undefined;
  #grants: readonly SeenGrant[] = [];
  #resource = UNWRITTEN;
  #log: readonly LogLine[] = [];
  #story = BEGINNING;
  #isOver = false;

  constructor(options: SceneOptions) {
    this.#options = options;
    const { token } = options;
    const { WebSocket } = new Pause();
    this.#observer = connect(serviceAddress(), {
      label: `playground ${this.#tag}`,
      WebSocket,
      ...(token !== undefined && { token }),
    });
    this.#watch = new KeyWatch({
      look: () => this.#observer.query(this.#terms.key),
      seen: (snapshot) => this.#see(snapshot),
      failed: (error) => {
        this.#sightProblem = blindnessInWords(error, this.#terms.key);
        this.#changed();
      },
    });
    this.#players = NAMES.slice(0, AT_FIRST).map((name) => this.#playerNamed(name));
  }

  get players(): readonly Player[] {
    return this.#players;
  }

  get terms(): Terms {
    return this.#terms;
  }

  get keyProblem(): string | undefined {
    return this.#keyProblem;
  }

  get snapshot(): KeySnapshot | undefined {
    return this.#snapshot;
  }

  get sightProblem(): string | undefined {
    return this.#sightProblem;
  }

  get resource(): ProtectedResource {
    return this.#resource;
  }

  get log(): readonly LogLine[] {
    return this.#log;
  }

  get story(): Story {
    return this.#story;
  }

  /** A client holds or waits for the key, so it cannot be changed now. */
  get isEngaged(): boolean {
    return this.#players.some(({ standing }) => ENGAGED.has(standing.kind));
  }

  /** All grants of this key that the page has seen, by their fences. */
  get grants(): readonly SeenGrant[] {
    return this.#grants;
  }

  /** A client's slot or place in the queue, according to the service. */
  placeOf(player: Player): Position | undefined {
    return placeOf(this.#snapshot, player.label);
  }

  /** The name of a client of this page, or the label of another one. */
  nameOf(member: Parameters<typeof nameOf>[0]): string {
    return this.#players.find(({ label }) => label === member.label)?.name ?? nameOf(member);
  }

  useKey(key: string): void {
    if (key === this.#terms.key || this.isEngaged) return;
    if (!isKey(key)) {
      this.#keyProblem = "A key is 1 to 256 bytes of text without blanks.";
      this.#changed();
      return;
    }
    this.#change({ ...this.#terms, key });
  }

  useLease(leaseMs: number): void {
    this.#terms = { ...this.#terms, leaseMs };
    this.#changed();
  }

  /** A key remembers its limit for a while: use a new key instead. */
  useLimit(limit: number): void {
    if (this.isEngaged) return;
    const isOurs = this.#terms.key === this.#generatedKey;
    if (isOurs) this.#generatedKey = `playground/${fourLetters()}`;
    this.#change({ ...this.#terms, limit, ...(isOurs && { key: this.#generatedKey }) });
  }

  add(): void {
    const name = NAMES.find((name) => this.#players.every((player) => player.name !== name));
    if (name === undefined) return;
    this.#players = [...this.#players, this.#playerNamed(name)];
    this.#tell(name, { type: "joined" });
  }

  dismiss(player: Player): void {
    this.#players = this.#players.filter((other) => other !== player);
    this.#tell(player.name, { type: "left" });
    void player.close().then(() => this.#watch.ask());
  }

  write({ name, fence }: Player): void {
    if (fence === undefined) return;
    const { highest = "" } = this.#resource;
    this.#resource = written(this.#resource, name, fence);
    this.#tell(
      name,
      this.#resource.verdict?.isAccepted ? { type: "wrote", fence } : { type: "refused", fence, highest },
    );
  }

  /** Removes everything from the service. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#watch.stop();
    await Promise.all([this.#observer.close(), ...this.#players.map((player) => player.close())]);
  }

  /** Stops updates of a page that was closed. */
  #changed(): void {
    if (!this.#isOver) this.#options.changed();
  }

  #playerNamed(name: string): Player {
    return new Player({
      name,
      label: `${name} ${this.#tag}`,
      token: this.#options.token,
      changed: () => {
        this.#watch.ask();
        this.#changed();
      },
      tell: (event) => this.#tell(name, event),
    });
  }

  /** Another key: forgets what was seen of the last one. */
  #change(terms: Terms): void {
    this.#terms = terms;
    this.#keyProblem = undefined;
    this.#snapshot = undefined;
    this.#sightProblem = undefined;
    this.#grants = [];
    this.#resource = UNWRITTEN;
    for (const player of this.#players) player.forget();
    this.#watch.ask();
    this.#changed();
  }

  #tell(who: string, clientEvent: ClientEvent): void {
    const event = { who, ...clientEvent };
    if (event.type === "acquired") this.#grants = withGrant(this.#grants, { who, fence: event.fence });
    this.#log = logged(this.#log, event, Date.now());
    this.#story = advance(this.#story, event);
    this.#watch.ask();
    this.#changed();
  }

  #see(snapshot: KeySnapshot): void {
    if (snapshot.report && snapshot.report.key !== this.#terms.key) return;
    this.#snapshot = snapshot;
    this.#sightProblem = undefined;
    for (const holder of snapshot.report?.held_by ?? [])
      this.#grants = withGrant(this.#grants, { who: this.nameOf(holder), fence: holder.fence });
    for (const player of this.#players) this.#announce(player);
    this.#changed();
  }

  /** Logs places in the queue, which the clients themselves do not know. */
  #announce(player: Player): void {
    const { standing, name } = player;
    if (standing.kind !== "waiting" && standing.kind !== "enqueued") return;
    const place = this.placeOf(player);
    if (place && place.kind !== "slot" && !this.#announced.has(standing)) {
      this.#announced.add(standing);
      this.#tell(name, { type: standing.kind === "waiting" ? "waits" : "enqueued", ...aheadOf(place) });
    }
    if (place?.kind === "slot") this.#cameUp.add(standing);
    else if (standing.kind === "enqueued" && this.#cameUp.has(standing)) player.lapse();
  }
}

function fourLetters(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => LETTERS[byte % LETTERS.length]).join("");
}
