import type { Player } from "./player.ts";
import type { ProtectedResource } from "./resource.ts";
import { nextStep, type Step, type Story } from "./story.ts";

export type Action = "acquire" | "release" | "enqueue" | "wait" | "give up" | "write" | "freeze" | "thaw";

/** The next step of the story: a button of one of the clients. */
export interface Hint {
  readonly who: string;
  readonly action: Action;
}

type Seen = Pick<Player, "name" | "standing" | "isFrozen" | "fence">;

/** Undefined if the story is over, or goes on without the user. */
export function hintOf(story: Story, players: readonly Seen[], resource: ProtectedResource): Hint | undefined {
  const step = nextStep(story);
  return step && hintFor(step, players, resource);
}

function hintFor(step: Step, players: readonly Seen[], { highest }: ProtectedResource): Hint | undefined {
  const holder = players.find(({ standing, isFrozen }) => standing.kind === "holding" && !isFrozen);
  const isAwaited = players.some(({ standing }) => standing.kind === "waiting");
  const acquire = toHint(
    players.find(({ standing, isFrozen }) => standing.kind === "nothing" && !isFrozen),
    "acquire",
  );
  const frozen = players.find(({ isFrozen }) => isFrozen);
  switch (step) {
    case "acquire":
    case "queue":
      return acquire;
    case "hand-over":
      return isAwaited ? toHint(holder, "release") : acquire;
    case "expiry":
      if (frozen) return undefined;
      return isAwaited ? toHint(holder, "freeze") : acquire;
    case "refusal": {
      if (holder?.fence && holder.fence > (highest ?? "")) return toHint(holder, "write");
      const stale = players.find(({ standing, fence }) => standing.kind === "lost" && fence !== undefined);
      return frozen ? toHint(frozen, "thaw") : toHint(stale, "write");
    }
  }
}

function toHint(player: Seen | undefined, action: Action): Hint | undefined {
  return player && { who: player.name, action };
}
