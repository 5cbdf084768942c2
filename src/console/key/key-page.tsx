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

/** The state of a key at a moment of the page's clock; no state if the key did not exist. */
interface Seen {
  readonly at: number;
  readonly state: KeyState | undefined;
}

interface KeyPageProps {
  readonly name: string;
  readonly service: Service;
}

/** One key: holders, queue and history. */
export function KeyPage({ name, service }: KeyPageProps) {
  const last = useRef<Seen | undefined>(undefined);
  const load = async (signal: AbortSignal) => {
    last.current = await look(service, name, signal, last.current ?? undefined);
    return last.current;
  };
  const { value, problem, refresh } = useLive(load, ASK_EVERY_MS, [service, name]);
  const [removing, setRemoving] = useState<{ readonly holder: Holder; readonly asked: number } | undefined>(undefined);
  /** Numbers the dialogs, so that each is a new element. */
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
    // The browser returns the focus to the button, unless the button is gone with its holder.
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
 * Loads a key; a key that does not exist is not an error. If it did not exist at the last look, asks the list first, because
 * browsers log every 404 as an error.
 */
async function look(service: Service, name: string, signal: AbortSignal, last: Seen | undefined): Promise<Seen> {
  if (name === "." || name === "..")
    throw new ServiceError("unnameable", "Addresses cannot name this key: only the list of all keys shows it.");
  // The list of a ticket shows only its own keys.
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
