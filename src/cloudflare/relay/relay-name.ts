import type { RoundId } from "../../core/group/effects.ts";
import type { PeerView } from "../../core/group/presence.ts";
import type { ProlongCommand } from "../../core/group/relay.ts";
import type { PartialEnv } from "../env.ts";
import { objectsOf } from "../placement.ts";

/** Set on an upgrade whose client has shown the token, and on one of a carrier that wants to know what was consumed. */
export const KNOWN_HEADER = "X-Holdfast-Relay-Known";
export const RELAY_WINDOW_HEADER = "X-Holdfast-Relay-Window";

/** What a key asks of the relay of its deployment. */
export interface RelayStub {
  /** Peers heard from in the last seconds. */
  present(): Promise<{ readonly ids: readonly string[] }>;
  /** All peers. Silent ones are asked for a sign of life first. */
  peers(): Promise<{ readonly peers: readonly PeerView[] }>;
  begin(round: RoundId & { readonly leaseMs: number }): Promise<void>;
  over(round: RoundId): Promise<void>;
  prolong(command: Omit<ProlongCommand, "call">): Promise<{ readonly isAgreed: boolean }>;
}

/** The one relay object of this deployment: all that it asks a peer goes over one connection, in order. */
export function relayOf(env: PartialEnv): RelayStub & Pick<Fetcher, "fetch"> {
  return objectsOf(env, "RELAY").getByName("relay") as unknown as RelayStub & Pick<Fetcher, "fetch">;
}
