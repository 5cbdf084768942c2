import type { Holder, Waiter } from "../../../client/index.ts";
import { leaseOf } from "../../shared/lease.ts";
import { hrefOf } from "../../shared/route.ts";
import type { SeenGrant } from "../state/grants.ts";
import { useMoveAnimation } from "../state/motion.ts";
import type { Scene } from "../state/scene.ts";
import type { KeySnapshot } from "../state/watch.ts";
import { FenceText } from "./fence-text.tsx";
import { LeaseBar } from "./lease-bar.tsx";

/** Other clients may use the key with many more slots than the playground does. */
const MAX_FREE = 3;

/** The key according to the service: holders, and waiters in order. */
export function KeyPanel({ scene }: { readonly scene: Scene }) {
  const { terms, snapshot, sightProblem, grants } = scene;
  return (
    <section class="panel key-panel" aria-labelledby="key-panel-title">
      <h2 id="key-panel-title">
        <code>{terms.key}</code> as the service sees it
      </h2>
      {sightProblem !== undefined && <p class="problem">{sightProblem}</p>}
      {snapshot && <Lane scene={scene} snapshot={snapshot} />}
      <Fences grants={grants} />
      <p class="note">
        {/* With an opener the new tab is signed in as this one is. */}
        <a href={hrefOf.key(terms.key)} target="_blank" rel="noopener opener">
          Watch this key
        </a>{" "}
        in another tab: when this one is left, its clients are gone.
      </p>
    </section>
  );
}

/** Holders and waiters. Moves are animated. */
function Lane({ scene, snapshot: { report, at } }: { readonly scene: Scene; readonly snapshot: KeySnapshot }) {
  const lane = useMoveAnimation();
  const moverOf = numbering();
  const { held_by = [], queue = [], holders = 0, waiters = 0, limit = scene.terms.limit } = report ?? {};
  const free = Math.max(0, limit - holders);
  return (
    <div class={limit === 1 ? "lane" : "lane shared"} ref={lane}>
      <div>
        <h3>{limit === 1 ? "Holds the lock" : `Hold the ${limit} slots`}</h3>
        <ol class="slots" aria-label="Holders">
          {held_by.map((holder) => (
            <li key={holder.fence} class="chip" data-tone="holding" data-mover={moverOf(holder)}>
              <b>{scene.nameOf(holder)}</b>
              <FenceText fence={holder.fence} among={scene.grants} />
              <LeaseBar lease={leaseOf(holder, at)} />
            </li>
          ))}
          {Array.from({ length: Math.min(free, MAX_FREE) }, (_, index) => (
            <li key={`free ${index}`} class="chip" data-tone="free">
              free
            </li>
          ))}
        </ol>
        <Unlisted shown={held_by.length} all={holders} />
      </div>
      <div>
        <h3>{queue.length === 0 ? "Nobody waits" : "Wait: first come, first served"}</h3>
        <ol class="line-up" aria-label="Queue">
          {queue.map((waiter) => {
            const mover = moverOf(waiter);
            return (
              <li key={mover} class="chip" data-tone="waiting" data-mover={mover}>
                <span class="position">{waiter.position}</span>
                <b>{scene.nameOf(waiter)}</b>
                {waiter.timeout_in_s === undefined && <small>has a place</small>}
              </li>
            );
          })}
        </ol>
        <Unlisted shown={queue.length} all={waiters} />
      </div>
    </div>
  );
}

/** The report lists only the first holders and waiters. */
function Unlisted({ shown, all }: { readonly shown: number; readonly all: number }) {
  return all > shown ? <p class="note">and {(all - shown).toLocaleString("en")} more</p> : null;
}

/** Ids for animated elements: a session may appear several times, and keeps its id from queue to slot. */
function numbering(): (member: Holder | Waiter) => string {
  const times = new Map<number, number>();
  return ({ owner_conn_id }) => {
    const time = (times.get(owner_conn_id) ?? 0) + 1;
    times.set(owner_conn_id, time);
    return `${owner_conn_id} ${time}`;
  };
}

const SHOWN_FENCES = 4;

function Fences({ grants }: { readonly grants: readonly SeenGrant[] }) {
  return (
    <div class="fences">
      <h3>Fences rise</h3>
      <ol aria-label="Fences, rising">
        {grants.slice(-SHOWN_FENCES).map(({ who, fence }) => (
          <li key={fence}>
            <bdi>{who}</bdi> <FenceText fence={fence} among={grants} />
          </li>
        ))}
        {grants.length === 0 && <li class="note">Every grant gets a higher one.</li>}
      </ol>
    </div>
  );
}
