import type { Holder, Waiter } from "../../client/report.ts";
import { hrefOf } from "../shared/route.ts";
import { count, isolated, nameOf, span } from "../shared/words.ts";
import { lasted, left, ticking } from "./clock.ts";
import type { KeyEntry } from "./entry.ts";
import { LeaseBar } from "./lease-bar.tsx";

/** Height of a row in pixels, and how many holders and waiters fit. `keys.css` has the same heights. */
export const SHAPES = {
  wide: { height: 64, holders: 3, waiters: 3 },
  narrow: { height: 124, holders: 2, waiters: 3 },
} as const;

export type Shape = (typeof SHAPES)[keyof typeof SHAPES];

interface RowProps {
  readonly entry: KeyEntry;
  readonly row: number;
  readonly shape: Shape;
  /** -1 while unknown. */
  readonly setSize: number;
  readonly onChoose: (key: string) => void;
}

/** One key in the list, with holders and waiters. */
export function Row({ entry, row, shape, setSize, onChoose }: RowProps) {
  const isIdle = entry.idleSeconds !== undefined;
  return (
    <li
      class={isIdle ? "key-row idle" : "key-row"}
      data-key={entry.key}
      aria-posinset={row + 1}
      aria-setsize={setSize}
      style={{ transform: `translateY(${row * shape.height}px)` }}
    >
      <div class="what">
        <a href={hrefOf.key(entry.key)} title={entry.key} onClick={() => onChoose(entry.key)}>
          {entry.key}
        </a>
        <span class="kind">{kindOf(entry)}</span>
      </div>
      <Holders entry={entry} most={shape.holders} />
      <Queue entry={entry} most={shape.waiters} />
    </li>
  );
}

function kindOf({ kind, limit, holders }: KeyEntry): string {
  return kind === "lock" || limit === undefined ? kind : `semaphore, ${holders} of ${limit} held`;
}

interface MembersProps {
  readonly entry: KeyEntry;
  readonly most: number;
}

function Holders({ entry: { heldBy, holders, idleSeconds, at }, most }: MembersProps) {
  if (idleSeconds !== undefined) return <p class="held">free, idle for {ticking(lasted(idleSeconds, at))}</p>;
  if (holders === 0) return <p class="held">free</p>;
  const shown = heldBy.slice(0, most);
  return (
    <div class={shown.length > 1 ? "held by-many" : "held"}>
      <span class="unseen">Held by</span>
      {shown.map((holder) => (
        <HeldBy key={holder.fence} holder={holder} at={at} />
      ))}
      {holders > shown.length && <span class="more">and {(holders - shown.length).toLocaleString("en")} more</span>}
    </div>
  );
}

function HeldBy({ holder, at }: { readonly holder: Holder; readonly at: number }) {
  return (
    <span class="holder">
      <span class="name" title={`${isolated(nameOf(holder))}, since ${holder.since}`}>
        {nameOf(holder)}
      </span>
      <span class="time">
        <span class="unseen">for</span> {ticking(lasted(holder.held_s, at))}
      </span>
      <LeaseBar holder={holder} at={at} />
      <span class="time">
        {ticking(left(holder.lease_expires_in_s, at))} <span class="word">left</span>
      </span>
    </span>
  );
}

function Queue({ entry: { waiters, queue, at }, most }: MembersProps) {
  if (waiters === 0)
    return (
      <p class="waiting none">
        <span aria-hidden="true">–</span> <span class="unseen">nobody waits</span>
      </p>
    );
  const shown = queue.slice(0, most);
  return (
    <div class="waiting">
      <strong>{count(waiters, "waiting", "waiting")}</strong>
      <ol>
        {shown.map((waiter) => (
          <WaitsAt key={`${waiter.owner_conn_id} ${waiter.since}`} waiter={waiter} at={at} />
        ))}
      </ol>
    </div>
  );
}

function WaitsAt({ waiter, at }: { readonly waiter: Waiter; readonly at: number }) {
  return (
    <li value={waiter.position} title={`${isolated(nameOf(waiter))}, for ${span(waiter.waited_s)}`}>
      <span class="place">{waiter.position}</span> <span class="name">{nameOf(waiter)}</span>{" "}
      <span class="time">{ticking(lasted(waiter.waited_s, at))}</span>
    </li>
  );
}
