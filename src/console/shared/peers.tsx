import { type Group, heardWords, quorumWords } from "./group.ts";
import { useLive } from "./live.ts";
import type { Service } from "./service.ts";

const ASK_EVERY_MS = 5_000;

/** The other deployments of the group, live. */
export function Peers({ service }: { readonly service: Service }) {
  const { value } = useLive((signal) => service.json<Group>("/v1/relay", { signal }), ASK_EVERY_MS, [service]);
  if (!value) return null;
  return (
    <section class="peers" aria-label="Group">
      <p class={value.quorum_ok ? "connection" : "connection lost"} role="status">
        <span class="dot" aria-hidden="true" />
        {quorumWords(value)}
      </p>
      <ul>
        {value.peers.map((peer) => (
          <li key={peer.id} class={peer.present ? "" : "silent"}>
            <b>{peer.id}</b> {heardWords(peer)}
          </li>
        ))}
      </ul>
    </section>
  );
}
