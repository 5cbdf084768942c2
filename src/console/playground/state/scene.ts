import { connect, type Locks } from "../../../client/index.ts";
import { isKey } from "../../../client/wire.ts";
import { nameOf } from "../../shared/words.ts";
import { type SeenGrant, withGrant } from "./grants.ts";
import type { Deed } from "./happening.ts";
import { type LogLine, logged } from "./log.ts";
import { Pause } from "./pause.ts";
import { Player, type Standing, type Terms } from "./player.ts";
import { aheadOf, type Position, placeOf } from "./position.ts";
import { type ProtectedThing, UNTOUCHED, written } from "./protected.ts";
import { BEGINNING, type Story, toldOf } from "./story.ts";
import { KeyWatch, type Sight } from "./watch.ts";
import { blindnessInWords } from "./words.ts";

export const NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"] as const;
const AT_FIRST = 3;
const LETTERS = "abcdefghijkmnpqrstuvwxyz";
const ENGAGED: ReadonlySet<Standing["kind"]> = new Set(["enqueuing", "enqueued", "waiting", "holding", "releasing"]);

export interface SceneOptions {
  readonly token: string | undefined;
  readonly changed: () => void;
}

/** Everything a visitor of the playground plays with: clients, a key, and the thing that the key protects. */
export class Scene {
  readonly #options: SceneOptions;
  /** Tells this page's clients from those of other visitors on the same key. */
  readonly #tag = fourLetters();
  readonly #observer: Locks;
  readonly #watch: KeyWatch;
  /** What the log has said about a place in the queue; each begins with a standing of its own. */
  readonly #announced = new WeakSet<Standing>();
  readonly #cameUp = new WeakSet<Standing>();
  #players: readonly Player[] = [];
  #terms: Terms = { key: `playground/${this.#tag}`, limit: 1, leaseMs: 15_000 };
  #generatedKey = this.#terms.key;
  #keyProblem: string | undefined;
  #sight: Sight | undefined;
  #sightProblem: string | undefined;
  #grants: readonly SeenGrant[] = [];
  #thing = UNTOUCHED;
  #log: readonly LogLine[] = [];
  #story = BEGINNING;
  #isOver = false;

  constructor(options: SceneOptions) {
    this.#options = options;
    const { token } = options;
    const { WebSocket } = new Pause();
    this.#observer = connect(location.origin, {
      label: `playground ${this.#tag}`,
      WebSocket,
      ...(token !== undefined && { token }),
    });
    this.#watch = new KeyWatch({
      look: () => this.#observer.query(this.#terms.key),
      seen: (sight) => this.#see(sight),
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

  get sight(): Sight | undefined {
    return this.#sight;
  }

  get sightProblem(): string | undefined {
    return this.#sightProblem;
  }

  get thing(): ProtectedThing {
    return this.#thing;
  }

  get log(): readonly LogLine[] {
    return this.#log;
  }

  get story(): Story {
    return this.#story;
  }

  /** Somebody has or wants the key: it cannot be another now. */
  get isEngaged(): boolean {
    return this.#players.some(({ standing }) => ENGAGED.has(standing.kind));
  }

  /** All grants of this key that the page has seen, by their fences. */
  get grants(): readonly SeenGrant[] {
    return this.#grants;
  }

  /** Where a client stands, as the service sees it. */
  placeOf(player: Player): Position | undefined {
    return placeOf(this.#sight, player.label);
  }

  /** How somebody is named here: those of this page by their names, all others by their labels. */
  nameOf(somebody: Parameters<typeof nameOf>[0]): string {
    return this.#players.find(({ label }) => label === somebody.label)?.name ?? nameOf(somebody);
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

  /** A key remembers its slots for a while: one of our own making is better replaced. */
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
    const { highest = "" } = this.#thing;
    this.#thing = written(this.#thing, name, fence);
    this.#tell(name, this.#thing.verdict?.isAccepted ? { type: "wrote", fence } : { type: "refused", fence, highest });
  }

  /** Nothing of the playground is left at the service. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#watch.stop();
    await Promise.all([this.#observer.close(), ...this.#players.map((player) => player.close())]);
  }

  /** A page that is gone must no longer be drawn. */
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
      tell: (deed) => this.#tell(name, deed),
    });
  }

  /** Another key: what was seen of the last one says nothing about it. */
  #change(terms: Terms): void {
    this.#terms = terms;
    this.#keyProblem = undefined;
    this.#sight = undefined;
    this.#sightProblem = undefined;
    this.#grants = [];
    this.#thing = UNTOUCHED;
    for (const player of this.#players) player.forget();
    this.#watch.ask();
    this.#changed();
  }

  #tell(who: string, deed: Deed): void {
    const happening = { who, ...deed };
    if (deed.type === "acquired") this.#grants = withGrant(this.#grants, { who, fence: deed.fence });
    this.#log = logged(this.#log, happening, Date.now());
    this.#story = toldOf(this.#story, happening);
    this.#watch.ask();
    this.#changed();
  }

  #see(sight: Sight): void {
    if (sight.report && sight.report.key !== this.#terms.key) return;
    this.#sight = sight;
    this.#sightProblem = undefined;
    for (const holder of sight.report?.held_by ?? [])
      this.#grants = withGrant(this.#grants, { who: this.nameOf(holder), fence: holder.fence });
    for (const player of this.#players) this.#announce(player);
    this.#changed();
  }

  /** A client does not know its place in the queue; whoever looks at the key does. */
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
