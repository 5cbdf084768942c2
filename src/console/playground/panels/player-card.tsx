import type { Action, Hint } from "../state/hint.ts";
import type { Player } from "../state/player.ts";
import type { Position } from "../state/position.ts";
import type { Scene } from "../state/scene.ts";
import { standingInWords, statusInWords } from "../state/words.ts";
import { FenceText } from "./fence-text.tsx";
import { LeaseBar } from "./lease-bar.tsx";

interface PlayerCardProps {
  readonly scene: Scene;
  readonly player: Player;
  readonly hint: Hint | undefined;
  readonly onClose: () => void;
}

/** One client: its state and its buttons. */
export function PlayerCard({ scene, player, hint, onClose }: PlayerCardProps) {
  const { name, fence, isFrozen, problem } = player;
  const place = scene.placeOf(player);
  const { tone, title, detail } = standingInWords(player, place);
  return (
    <section class={isFrozen ? "player panel frozen" : "player panel"} data-tone={tone} aria-label={name}>
      <div class="top">
        <h3>{name}</h3>
        <span class="note">{isFrozen ? "frozen" : statusInWords(player.connection)}</span>
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </div>
      <div class="standing">
        <p>
          <strong class="title">{title}</strong>
          {fence !== undefined && (
            <>
              {" "}
              fence <FenceText fence={fence} among={scene.grants} />
            </>
          )}
        </p>
        <p class="problem" role="alert">
          {problem ?? ""}
        </p>
        {problem === undefined && <p class="note">{detail}</p>}
        {isLeasing(player, place) && <LeaseBar lease={place.lease} />}
      </div>
      <Actions scene={scene} player={player} hinted={hint?.who === name ? hint.action : undefined} />
    </section>
  );
}

/** Whether a lease runs out unless the client acts. */
function isLeasing(
  { standing: { kind } }: Player,
  place: Position | undefined,
): place is Extract<Position, { kind: "slot" }> {
  return place?.kind === "slot" && (kind === "holding" || kind === "enqueued" || kind === "waiting");
}

interface ActionsProps {
  readonly scene: Scene;
  readonly player: Player;
  readonly hinted: Action | undefined;
}

function Actions({ scene, player, hinted }: ActionsProps) {
  const { kind } = player.standing;
  const isFree = kind === "nothing" || kind === "lost";
  const action = (name: Action, text: string, isPossible: boolean, run: () => void) => (
    <ActionButton
      text={text}
      isPossible={isPossible && (!player.isFrozen || name === "thaw")}
      isHinted={hinted === name}
      run={run}
    />
  );
  return (
    <div class="actions">
      {action("acquire", "Acquire", isFree, () => player.acquire(scene.terms))}
      {action("release", "Release", kind === "holding", () => void player.release())}
      {action("write", "Write", player.fence !== undefined, () => scene.write(player))}
      {action("enqueue", "Enqueue", isFree, () => void player.enqueue(scene.terms))}
      {action("wait", "Wait", kind === "enqueued", () => player.wait())}
      {action("give up", "Give up", kind === "waiting" || kind === "enqueued", () => player.giveUp())}
      {player.isFrozen
        ? action("thaw", "Thaw", true, () => player.thaw())
        : action("freeze", "Freeze", true, () => player.freeze())}
    </div>
  );
}

interface ActionButtonProps {
  readonly text: string;
  readonly isPossible: boolean;
  readonly isHinted: boolean;
  readonly run: () => void;
}

/** Not `disabled`: a button that its own click disables would lose the keyboard focus. */
function ActionButton({ text, isPossible, isHinted, run }: ActionButtonProps) {
  return (
    <button
      type="button"
      class={isHinted ? "hinted" : ""}
      aria-disabled={isPossible ? "false" : "true"}
      onClick={() => isPossible && run()}
    >
      {text}
    </button>
  );
}
