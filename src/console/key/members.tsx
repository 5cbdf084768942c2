import type { Holder, Waiter } from "../../client/report.ts";
import { lasted, left, ticking } from "../keys/clock.ts";
import { LeaseBar } from "../keys/lease-bar.tsx";
import { nameOf, ownerOf, shortFence } from "../shared/words.ts";
import { clockTime } from "./clock-time.ts";
import type { KeyState } from "./history.ts";

/** Longer timeouts are shown as none: clients without a timeout send the largest number. */
const FOR_EVER_S = 10 * 365 * 86_400;

interface MembersProps {
  readonly state: KeyState;
  /** When it was received, by the page's clock. */
  readonly at: number;
}

interface HoldersProps extends MembersProps {
  readonly onRemove: (holder: Holder) => void;
}

/** The holders of the key. */
export function Holders({ state, at, onRemove }: HoldersProps) {
  const { kind, limit, holders, held_by } = state;
  return (
    <section class="panel" aria-labelledby="holders-title">
      <h2 id="holders-title">
        {kind === "lock" ? "Held by" : `Held by ${holders.toLocaleString("en")} of ${limit.toLocaleString("en")}`}
      </h2>
      {holders === 0 ? (
        <p class="note">Nobody. Whoever asks gets it at once.</p>
      ) : (
        <ul class="members">
          {held_by.map((holder) => (
            <HolderItem key={holder.fence} holder={holder} at={at} onRemove={onRemove} />
          ))}
        </ul>
      )}
      <Unlisted shown={held_by.length} all={holders} />
    </section>
  );
}

interface HolderItemProps {
  readonly holder: Holder;
  readonly at: number;
  readonly onRemove: (holder: Holder) => void;
}

function HolderItem({ holder, at, onRemove }: HolderItemProps) {
  return (
    <li class="member">
      <p class="who">
        <Who member={holder} />
      </p>
      <p class="lease-line">
        <LeaseBar holder={holder} at={at} />
        <span class="time">{ticking(left(holder.lease_expires_in_s, at))} of the lease left</span>
      </p>
      <dl class="facts">
        <div>
          <dt>held for</dt>
          <dd>{ticking(lasted(holder.held_s, at))}</dd>
        </div>
        <div>
          <dt>since</dt>
          <dd>
            <time dateTime={holder.since} title={holder.since}>
              {clockTime(holder.since)}
            </time>
          </dd>
        </div>
        <div>
          <dt>fence</dt>
          <dd class="mono" title={holder.fence}>
            {shortFence(holder.fence)}
          </dd>
        </div>
      </dl>
      <button type="button" class="remove" onClick={() => onRemove(holder)}>
        Force release <span class="unseen">of {nameOf(holder)}</span> …
      </button>
    </li>
  );
}

/** The waiters, in order. */
export function Queue({ state: { queue, waiters }, at }: MembersProps) {
  return (
    <section class="panel" aria-labelledby="queue-title">
      <h2 id="queue-title">{waiters === 0 ? "Nobody waits" : `${waiters.toLocaleString("en")} waiting`}</h2>
      {queue.length > 0 && (
        <ol class="queue">
          {queue.map((waiter) => (
            <WaiterItem key={`${waiter.owner_conn_id} ${waiter.since}`} waiter={waiter} at={at} />
          ))}
        </ol>
      )}
      <Unlisted shown={queue.length} all={waiters} />
    </section>
  );
}

function WaiterItem({ waiter, at }: { readonly waiter: Waiter; readonly at: number }) {
  return (
    <li value={waiter.position}>
      <span class="place">{waiter.position}</span>
      <span class="who">
        <Who member={waiter} />
      </span>
      <span class="time">
        for {ticking(lasted(waiter.waited_s, at))}
        <span class="note">{timeoutText(waiter, at)}</span>
      </span>
    </li>
  );
}

function timeoutText({ timeout_in_s }: Waiter, at: number): string {
  if (timeout_in_s === undefined) return ", has a place only";
  return timeout_in_s > FOR_EVER_S
    ? ", waits however long it takes"
    : `, gives up in ${ticking(left(timeout_in_s, at))}`;
}

function Who({ member }: { readonly member: Holder | Waiter }) {
  return (
    <>
      <strong>
        <bdi>{nameOf(member)}</bdi>
      </strong>{" "}
      {member.label !== undefined && <span class="note">{ownerOf(member)}</span>}
    </>
  );
}

function Unlisted({ shown, all }: { readonly shown: number; readonly all: number }) {
  return all > shown ? <p class="note">and {(all - shown).toLocaleString("en")} more</p> : null;
}
