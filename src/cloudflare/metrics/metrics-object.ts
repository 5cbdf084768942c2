import { DurableObject } from "cloudflare:workers";
import { type Sums, Tally } from "../../core/metrics/tally.ts";
import { log, logged } from "../../log.ts";
import type { Env } from "../env.ts";
import { countingSince } from "./isolate-tally.ts";

/** A collector's sums, and since when its isolate counts or collects, in milliseconds since the epoch. */
export interface Reading {
  readonly sums: Sums;
  readonly startedAt: number;
}

const SCHEMA = "CREATE TABLE IF NOT EXISTS tally (id INTEGER PRIMARY KEY CHECK (id = 1), sums TEXT NOT NULL)";

/** Sums are stored after at most this long; a crash loses no more than that. */
const STORE_EVERY_MS = 5_000;

/**
 * Adds up what objects and Workers report. Sums are durable before they are read, so no reader ever sees one fall, even
 * after a crash: a counter that falls a little looks like one that restarted from 0 and jumped back up.
 */
export class MetricsObject extends DurableObject<Env> {
  readonly #tally = new Tally();
  #isStored = true;
  #storedAt = Number.NEGATIVE_INFINITY;
  #isTimerSet = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    countingSince();
    const { sql } = ctx.storage;
    sql.exec(SCHEMA);
    for (const { sums } of sql.exec<{ sums: string }>("SELECT sums FROM tally")) this.#tally.merge(JSON.parse(sums));
  }

  /** Adds what was counted since the caller's last report. */
  report({ sums }: { readonly sums: Sums }): void {
    this.#tally.merge(sums);
    this.#isStored = false;
    this.#storeInTime();
  }

  read(): Reading {
    this.#store();
    return { sums: this.#tally.read(), startedAt: countingSince() };
  }

  /** Stores immediately after a pause, so that rare reports keep no object awake, and otherwise once per interval. */
  #storeInTime(): void {
    if (this.#isTimerSet) return;
    const dueInMs = Math.min(this.#storedAt + STORE_EVERY_MS - Date.now(), STORE_EVERY_MS);
    if (dueInMs <= 0) this.#store();
    else this.ctx.waitUntil(this.#storeIn(dueInMs).catch(logged("metrics_not_stored")));
  }

  async #storeIn(ms: number): Promise<void> {
    this.#isTimerSet = true;
    await scheduler.wait(ms);
    this.#isTimerSet = false;
    this.#store();
    // No request waits for this write, so nothing else would keep the object alive until it is durable.
    await this.ctx.storage.sync();
  }

  #store(): void {
    if (this.#isStored) return;
    if (this.#tally.isFull) log("error", "too_many_metrics");
    const sums = JSON.stringify(this.#tally.read());
    this.ctx.storage.sql.exec(
      "INSERT INTO tally VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET sums = excluded.sums",
      sums,
    );
    this.#isStored = true;
    this.#storedAt = Date.now();
  }
}
