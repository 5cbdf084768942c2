import type { LossReason } from "../../../client/index.ts";
import { span } from "../../shared/words.ts";

/** What a client did, or what happened to it. */
export type ClientEvent =
  | { readonly type: "joined" | "left" | "froze" | "thawed" | "released" | "gave up" | "lapsed" }
  | { readonly type: "acquired"; readonly fence: string; readonly waitedMs: number }
  /** How many waiters are ahead in the queue, exactly or at least. */
  | { readonly type: "waits" | "enqueued"; readonly ahead: number; readonly isAtLeast?: true }
  | { readonly type: "lost"; readonly reason: LossReason; readonly fence: string | undefined }
  | { readonly type: "wrote"; readonly fence: string }
  | { readonly type: "refused"; readonly fence: string; readonly highest: string }
  | { readonly type: "failed"; readonly problem: string };

/** An event in the playground: shown in the log, and advances the story. */
export type PlaygroundEvent = ClientEvent & { readonly who: string };

/** Text, or a fence, which is formatted specially. */
export type Phrase = string | { readonly fence: string };

/** A shorter wait is not mentioned. */
const AT_ONCE_MS = 250;

/** The event in words. */
export function sentenceOf(event: PlaygroundEvent): readonly Phrase[] {
  const { who } = event;
  switch (event.type) {
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
      return event.waitedMs < AT_ONCE_MS
        ? [`${who} acquired it with fence `, { fence: event.fence }]
        : [`${who} got it after ${span(event.waitedMs / 1000)}, with fence `, { fence: event.fence }];
    case "waits":
      return [`${who} waits, ${placeInWords(event)}`];
    case "enqueued":
      return [`${who} has a place, ${placeInWords(event)}`];
    case "lost":
      return [`${who} lost it: ${event.reason}`];
    case "wrote":
      return [`${who} wrote with fence `, { fence: event.fence }];
    case "refused":
      return [`${who} was refused: fence `, { fence: event.fence }, " is older than ", { fence: event.highest }];
    case "failed":
      return [`${who}: ${event.problem}`];
  }
}

function placeInWords({ ahead, isAtLeast }: { readonly ahead: number; readonly isAtLeast?: true }): string {
  if (isAtLeast) return `at least ${ahead} ahead in the queue`;
  return ahead === 0 ? "next in the queue" : `${ahead} ahead in the queue`;
}
