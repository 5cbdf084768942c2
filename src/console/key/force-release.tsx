import { useEffect, useRef, useState } from "hono/jsx/dom";
import type { Holder } from "../../client/report.ts";
import { lasted, left, ticking } from "../keys/clock.ts";
import { inWords, Service, ServiceError } from "../shared/service.ts";
import { count, nameOf, ownerOf, shortFence } from "../shared/words.ts";
import type { KeyState } from "./history.ts";

interface ForceReleaseProps {
  readonly name: string;
  /** As it was when the dialog was opened. */
  readonly holder: Holder;
  /** The current state of the key; undefined if it no longer exists. */
  readonly state: KeyState | undefined;
  readonly at: number;
  readonly service: Service;
  readonly onClose: () => void;
  /** The outcome, if it arrives after the dialog was closed. */
  readonly onLate: (outcome: string) => void;
}

type Progress =
  | { readonly step: "asking"; readonly refusal?: string; readonly needsAdmin: boolean }
  | { readonly step: "trying"; readonly needsAdmin: boolean }
  | { readonly step: "over"; readonly outcome: string };
type Outcome = Exclude<Progress, { readonly step: "trying" }>;

/**
 * Asks for confirmation before a slot is taken from its holder, and shows who that is. The request names the grant by its
 * fence, so it never affects a later holder.
 */
export function ForceRelease({ name, holder, state, at, service, onClose, onLate }: ForceReleaseProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const secret = useRef<HTMLInputElement>(null);
  const [progress, setProgress] = useState<Progress>({ step: "asking", needsAdmin: false });
  useEffect(() => dialog.current?.showModal(), []);
  const now = state?.held_by.find(({ fence }) => fence === holder.fence);
  const needsAdmin = progress.step !== "over" && progress.needsAdmin;
  const remove = async (event: Event) => {
    event.preventDefault();
    const shown = secret.current?.value.trim() ?? "";
    setProgress({ step: "trying", needsAdmin });
    const next = await removed(needsAdmin ? new Service(shown) : service, name, holder, needsAdmin);
    if (dialog.current?.open) setProgress(next);
    else onLate(next.step === "over" ? next.outcome : `Nothing was taken away. ${next.refusal ?? ""}`);
  };
  const isShut = useRef(false);
  // Now, not in the close event, which comes later and might hit the next dialog.
  const shut = () => {
    if (isShut.current) return;
    isShut.current = true;
    dialog.current?.close();
    onClose();
  };
  // The dialog cannot be cancelled while the request is in flight.
  const cancel = (event: Event) => {
    event.preventDefault();
    if (progress.step !== "trying") shut();
  };
  return (
    <dialog ref={dialog} class="force-release" aria-labelledby="force-release-title" onCancel={cancel} onClose={shut}>
      <form onSubmit={remove}>
        <h2 id="force-release-title">
          Take{" "}
          <code>
            <bdi>{name}</bdi>
          </code>{" "}
          away from <bdi>{nameOf(holder)}</bdi>?
        </h2>
        {progress.step === "over" ? (
          <p role="status">{progress.outcome}</p>
        ) : (
          <>
            <Target holder={now ?? holder} at={at} state={state} isThere={now !== undefined} />
            {needsAdmin && <AdminToken field={secret} />}
            <p class="problem" role="alert">
              {progress.step === "asking" ? (progress.refusal ?? "") : ""}
            </p>
          </>
        )}
        <div class="choices">
          <button type="button" autofocus disabled={progress.step === "trying"} onClick={shut}>
            {progress.step === "over" ? "Close" : "Cancel"}
          </button>
          {progress.step !== "over" && (
            <button type="submit" class="danger" disabled={progress.step === "trying" || !now}>
              {progress.step === "trying" ? "Taking it away …" : `Take it away from ${nameOf(holder)}`}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

interface TargetProps {
  readonly holder: Holder;
  readonly at: number;
  readonly state: KeyState | undefined;
  readonly isThere: boolean;
}

/** The holder that would lose the lock, and the next waiter. */
function Target({ holder, at, state, isThere }: TargetProps) {
  if (!isThere) return <p role="status">It has already moved on: {nameOf(holder)} does not hold it any more.</p>;
  const [next] = state?.queue ?? [];
  return (
    <>
      <dl class="target">
        <Fact term={holder.protocol === undefined ? "Session" : "Without a session"}>
          {holder.protocol === undefined ? String(holder.owner_conn_id) : ownerOf(holder)}
        </Fact>
        <Fact term="Held for">{ticking(lasted(holder.held_s, at))}</Fact>
        <Fact term="Lease left">{ticking(left(holder.lease_expires_in_s, at))}</Fact>
        <Fact term="Fence">{shortFence(holder.fence)}</Fact>
        <Fact term="Waiting">
          {next ? `${count(state?.waiters ?? 0, "session")}; ${nameOf(next)} is next` : "nobody"}
        </Fact>
      </dl>
      <p>
        {nameOf(holder)}{" "}
        {holder.protocol === undefined
          ? "is told that it was stolen, if it listens; its work is not stopped."
          : "has no session and is not told; its work is not stopped."}{" "}
        {next ? `${nameOf(next)} gets the key at once.` : "Whoever is next gets the key at once."}
      </p>
    </>
  );
}

function Fact({ term, children }: { readonly term: string; readonly children: string }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The token is used for this request only and not stored. */
function AdminToken({ field }: { readonly field: { current: HTMLInputElement | null } }) {
  useEffect(() => field.current?.focus(), []);
  return (
    <>
      <label for="admin-token">Administrator's token</label>
      <input
        id="admin-token"
        type="password"
        ref={field}
        required
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        aria-describedby="admin-token-note"
      />
      <p class="note" id="admin-token-note">
        It is forgotten when this closes. A service that was started without one lets nobody do this.
      </p>
    </>
  );
}

async function removed(service: Service, name: string, holder: Holder, neededAdmin: boolean): Promise<Outcome> {
  const path = `/v1/admin/holders/${encodeURIComponent(name)}?token_fence=${holder.fence}`;
  try {
    await service.json(path, { method: "DELETE" });
    return { step: "over", outcome: `Done. ${nameOf(holder)} does not hold it any more.` };
  } catch (error) {
    const code = error instanceof ServiceError ? error.code : "failed";
    if (code === "not_held") return { step: "over", outcome: `It has already moved on. Nothing was taken away.` };
    if (code !== "forbidden" && code !== "unauthorized")
      return { step: "asking", refusal: inWords(error), needsAdmin: neededAdmin };
    const refusal = neededAdmin
      ? "That is not the administrator's token."
      : "Only the administrator may do this. Show the administrator's token, and try again.";
    return { step: "asking", refusal, needsAdmin: true };
  }
}
