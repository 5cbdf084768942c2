import { count } from "../../shared/words.ts";
import type { Scene } from "../state/scene.ts";
import { FenceText } from "./fence-text.tsx";

/** The resource that the lock protects; the fences are real. */
export function ResourcePanel({ scene }: { readonly scene: Scene }) {
  const { highest, lastWriter, writes, verdict } = scene.resource;
  const { grants, terms } = scene;
  return (
    <section class="panel thing" aria-labelledby="thing-title">
      <h2 id="thing-title">The thing the lock protects</h2>
      <p class="note">
        It stands for your database: it remembers the highest fence it has seen, and refuses lower ones.
      </p>
      <p>
        {highest === undefined ? (
          "Nobody has written yet."
        ) : (
          <>
            {count(writes, "write")}, highest fence <FenceText fence={highest} among={grants} /> by {lastWriter}
          </>
        )}
      </p>
      {verdict && (
        <p class="verdict" data-tone={verdict.isAccepted ? "holding" : "lost"}>
          <b>{verdict.isAccepted ? "Accepted" : "Refused"}</b>: {verdict.who}’s fence{" "}
          <FenceText fence={verdict.fence} among={grants} />
          {verdict.isAccepted || highest === undefined ? (
            " is not older than any before"
          ) : (
            <>
              {" "}
              is older than <FenceText fence={highest} among={grants} />
            </>
          )}
          .
        </p>
      )}
      {terms.limit > 1 && (
        <p class="note">With several slots the holder with the older fence is refused, too: fences are for locks.</p>
      )}
    </section>
  );
}
