import {
  AuthError,
  CapacityError,
  ConnectionError,
  DrainingError,
  LimitMismatchError,
  type Status,
} from "../../../client/index.ts";
import { inWords } from "../../shared/service.ts";
import { isolated } from "../../shared/words.ts";
import type { Player } from "./player.ts";
import type { Position, QueuePosition } from "./position.ts";

/** Why a request of a client failed. */
export function failureInWords(error: unknown, key: string): string {
  if (error instanceof AuthError) return `This token or ticket does not cover the key ${isolated(key)}.`;
  if (error instanceof LimitMismatchError)
    return `${isolated(key)} exists with another number of slots. It is forgotten a while after its last use; until then take another key.`;
  if (error instanceof CapacityError)
    return error.code === "max_waiters"
      ? `The queue of ${isolated(key)} is as long as the service lets it be.`
      : "The service has as many keys as it may have.";
  if (error instanceof DrainingError) return "The service takes no new work: it is about to stop.";
  if (error instanceof ConnectionError) return "The connection was lost for too long: what was asked for is given up.";
  return inWords(error);
}

/** Why holders and waiters cannot be shown. */
export function blindnessInWords(error: unknown, key: string): string {
  if (error instanceof ConnectionError) return "The service does not answer. This is how it was when it last did.";
  return failureInWords(error, key);
}

export function statusInWords(status: Status | "connecting"): string {
  switch (status) {
    case "connecting":
      return "connecting …";
    case "connected":
    case "resumed":
      return "connected";
    case "reconnecting":
      return "connection lost, trying again …";
    case "closed":
      return "closed";
  }
}

export type Tone = "plain" | "holding" | "waiting" | "lost";

/** The state of a client, and what it means. */
export interface StandingWords {
  readonly tone: Tone;
  readonly title: string;
  readonly detail: string;
}

/** The state according to the client, and what the service knows besides. */
export function standingInWords(
  { standing, isFrozen }: Pick<Player, "standing" | "isFrozen">,
  place: Position | undefined,
): StandingWords {
  switch (standing.kind) {
    case "nothing":
      return {
        tone: "plain",
        title: "Has nothing",
        detail: "Acquire waits for the lock; Enqueue takes a place to wait for later.",
      };
    case "enqueuing":
      return { tone: "waiting", title: "Asking for a place …", detail: "" };
    case "enqueued":
      return { tone: "waiting", ...placeInWords(place, "Place taken") };
    case "waiting":
      return { tone: "waiting", ...waitInWords(place, isFrozen) };
    case "holding":
      return { tone: "holding", ...holdInWords(place, isFrozen) };
    case "releasing":
      return { tone: "plain", title: "Giving it back …", detail: "" };
    case "lost":
      return {
        tone: "lost",
        title: `Lost: ${standing.reason}`,
        detail:
          standing.fence === undefined
            ? "The turn came and went while nobody listened."
            : "The client has been told. All it still has is an old fence.",
      };
  }
}

type TitleAndDetail = Omit<StandingWords, "tone">;

function placeInWords(place: Position | undefined, title: string): TitleAndDetail {
  if (place?.kind === "slot") return { title: "The turn has come", detail: "Wait for it before the lease is over." };
  const detail = "It moves up by itself. Wait for it when you are ready.";
  return { title: place ? `${title}, ${positionInWords(place)}` : title, detail };
}

function waitInWords(place: Position | undefined, isFrozen: boolean): TitleAndDetail {
  if (place?.kind === "slot")
    return { title: "The turn has come", detail: isFrozen ? "Being frozen, the client does not know." : "" };
  if (!place) return { title: "Asking …", detail: "" };
  return { title: `Waiting, ${positionInWords(place)}`, detail: "First come, first served." };
}

function positionInWords(place: QueuePosition): string {
  return place.kind === "queue"
    ? `position ${place.position} of ${place.of}`
    : `behind the first ${place.behind} of ${place.of}`;
}

function holdInWords(place: Position | undefined, isFrozen: boolean): TitleAndDetail {
  if (!isFrozen) return { title: "Holding", detail: "The client renews the lease by itself." };
  if (place?.kind === "slot") return { title: "Holding, frozen", detail: "Nobody renews the lease: it runs out." };
  return { title: "Believes it still holds", detail: "The lease is over, and the service has given it away." };
}
