import type { LossReason } from "../../../client/index.ts";
import { span } from "../../shared/words.ts";

/** What a client did, or what became of it. */
export type Deed =
  | { readonly type: "joined" | "left" | "froze" | "thawed" | "released" | "gave up" | "lapsed" }
  | { readonly type: "acquired"; readonly fence: string; readonly waitedMs: number }
  /** Its place in the queue is known: so many stand before it, or at least so many. */
  | { readonly type: "waits" | "enqueued"; readonly ahead: number; readonly isAtLeast?: true }
  | { readonly type: "lost"; readonly reason: LossReason; readonly fence: string | undefined }
  | { readonly type: "wrote"; readonly fence: string }
  | { readonly type: "refused"; readonly fence: string; readonly highest: string }
  | { readonly type: "failed"; readonly problem: string };

/** Something that happened in the playground: the log tells it, and the story moves on by it. */
export type Happening = Deed & { readonly who: string };

/** Text, and fences, which are shown in a way of their own. */
export type Phrase = string | { readonly fence: string };

/** Who got it sooner did not wait. */
const AT_ONCE_MS = 250;

/** What happened, in words. */
export function sentenceOf(happening: Happening): readonly Phrase[] {
  const { who } = happening;
  switch (happening.type) {
    case "joined":
      return [`${who} is here`];
    case "left":
      return [`${who} was closed: everything is given up at once`];
    case "froze":
      return [`${who} stands still: nothing is renewed any more`];
    case "thawed":
      return [`${who} goes on as if nothing had happened`];
    case "released":
      return [`${who} released it`];
    case "gave up":
      return [`${who} gave up the place in the queue`];
    case "lapsed":
      return [`${who} has lost the place: it came up, and nobody waited for it within the lease`];
    case "acquired":
      return happening.waitedMs < AT_ONCE_MS
        ? [`${who} acquired it with fence `, { fence: happening.fence }]
        : [`${who} got it after ${span(happening.waitedMs / 1000)}, with fence `, { fence: happening.fence }];
    case "waits":
      return [`${who} waits, ${placeInWords(happening)}`];
    case "enqueued":
      return [`${who} has a place, ${placeInWords(happening)}`];
    case "lost":
      return [`${who} lost it: ${happening.reason}`];
    case "wrote":
      return [`${who} wrote with fence `, { fence: happening.fence }];
    case "refused":
      return [
        `${who} was refused: fence `,
        { fence: happening.fence },
        " is older than ",
        { fence: happening.highest },
      ];
    case "failed":
      return [`${who}: ${happening.problem}`];
  }
}

function placeInWords({ ahead, isAtLeast }: { readonly ahead: number; readonly isAtLeast?: true }): string {
  if (isAtLeast) return `at least ${ahead} ahead in the queue`;
  return ahead === 0 ? "next in the queue" : `${ahead} ahead in the queue`;
}
