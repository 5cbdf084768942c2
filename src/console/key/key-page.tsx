import { useEffect, useRef, useState } from "hono/jsx/dom";
import type { Holder, Stats } from "../../client/report.ts";
import { lasted, ticking, useSeconds } from "../keys/clock.ts";
import { useLive } from "../shared/live.ts";
import { hrefOf } from "../shared/route.ts";
import { type Service, ServiceError } from "../shared/service.ts";
import { ForceRelease } from "./force-release.tsx";
import { Grants } from "./grants.tsx";
import { type KeyState, withPast } from "./history.ts";
import { Holders, Queue } from "./members.tsx";

const ASK_EVERY_MS = 1_000;

/** A key as it was at a moment of the page's own clock; without state if there was no such key. */
interface Seen {
  readonly at: number;
  readonly state: KeyState | undefined;
}

interface KeyPageProps {
  readonly name: string;
  readonly service: Service;
}

/** One key: its holders, its queue and what has happened to it. */
export function KeyPage({ name, service }: KeyPageProps) {
  const last = useRef<Seen | undefined>(undefined);
  const load = async (signal: AbortSignal) => {
    last.current = await look(service, name, signal, last.current ?? undefined);
    return last.current;
  };
  const { value, problem, refresh } = useLive(load, ASK_EVERY_MS, [service, name]);
  const [removing, setRemoving] = useState<{ readonly holder: Holder; readonly asked: number } | undefined>(undefined);
  /** Each dialog is a new one, however soon it follows another. */
  const asked = useRef(0);
  const remove = (holder: Holder) => {
    asked.current = (asked.current ?? 0) + 1;
    setRemoving({ holder, asked: asked.current });
  };
  const [late, setLate] = useState<string | undefined>(undefined);
  const heading = useRef<HTMLHeadingElement>(null);
  useSeconds();
  useEffect(() => {
    scrollTo({ top: 0, behavior: "instant" });
    heading.current?.focus({ preventScroll: true });
  }, []);
  const close = () => {
    setRemoving(undefined);
    refresh();
    // The browser gives the focus back to the button, unless that has gone with its holder.
    if (!document.activeElement?.matches("button.remove")) heading.current?.focus();
  };
  return (
    <div class="key">
      <p>
        <a href={hrefOf.keys}>Back to all keys</a>
      </p>
      <h1 class="mono" tabindex={-1} ref={heading}>
        <bdi>{name}</bdi>
      </h1>
      <p class="notice" role="alert" hidden={problem === undefined}>
        {problem && `Not up to date. ${problem}`}
      </p>
      <p class="note" role="status" hidden={late === undefined}>
        {late}
      </p>
      {value ? <Present seen={value} onRemove={remove} /> : !problem && <p class="note">Looking …</p>}
      {removing && (
        <ForceRelease
          key={String(removing.asked)}
          name={name}
          holder={removing.holder}
          state={value?.state}
          at={value?.at ?? 0}
          service={service}
          onClose={close}
          onLate={setLate}
        />
      )}
    </div>
  );
}

function Present({
  seen: { state, at },
  onRemove,
}: {
  readonly seen: Seen;
  readonly onRemove: (holder: Holder) => void;
}) {
  if (!state)
    return (
      <div class="panel">
        <p role="status">Nobody has used this key for a while. It appears here as soon as somebody does.</p>
      </div>
    );
  return (
    <>
      <p class="note">{kindOf(state, at)}</p>
      <div class="members-now">
        <Holders state={state} at={at} onRemove={onRemove} />
        <Queue state={state} at={at} />
      </div>
      {state.history && <Grants history={state.history} />}
    </>
  );
}

function kindOf({ kind, limit, idle_s }: KeyState, at: number): string {
  const what = kind === "lock" ? "Lock" : `Semaphore with ${limit.toLocaleString("en")} slots`;
  return idle_s === undefined ? what : `${what}, idle for ${ticking(lasted(idle_s, at))}`;
}

/**
 * That a key does not exist is an answer like any other. Whether one exists that did not when last seen is asked of the list: browsers
 * report every 404 as an error.
 */
async function look(service: Service, name: string, signal: AbortSignal, last: Seen | undefined): Promise<Seen> {
  if (name === "." || name === "..")
    throw new ServiceError("unnameable", "Addresses cannot name this key: only the list of all keys shows it.");
  // A ticket's list shows its own keys only: what the key itself answers is heard once.
  const isListTrusted = last !== undefined || service.credential === undefined;
  if (!last?.state && isListTrusted && !(await isListed(service, name, signal)))
    return { state: undefined, at: performance.now() };
  try {
    const state = await service.json<KeyState>(`/v1/keys/${encodeURIComponent(name)}?history=true`, { signal });
    return { state: withPast(state, last?.state), at: performance.now() };
  } catch (error) {
    if (error instanceof ServiceError && error.code === "not_found") return { state: undefined, at: performance.now() };
    throw error;
  }
}

async function isListed(service: Service, name: string, signal: AbortSignal): Promise<boolean> {
  const query = new URLSearchParams({ prefix: name, limit: "1" });
  const { locks, semaphores, idle_locks, idle_semaphores } = await service.json<Stats>(`/v1/stats?${query}`, {
    signal,
  });
  return [locks, semaphores, idle_locks, idle_semaphores].flat().some(({ key }) => key === name);
}
