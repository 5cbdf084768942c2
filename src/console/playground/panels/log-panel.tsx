import { sentenceOf } from "../state/event.ts";
import type { LogLine } from "../state/log.ts";
import type { Scene } from "../state/scene.ts";
import { FenceText } from "./fence-text.tsx";

/** What happened, newest first. */
export function LogPanel({ scene }: { readonly scene: Scene }) {
  return (
    <section class="panel log-panel" aria-labelledby="log-title">
      <h2 id="log-title">What happened</h2>
      <div role="log" aria-labelledby="log-title" tabindex={0}>
        {scene.log.length === 0 && <p class="note">Nothing yet. Let somebody acquire.</p>}
        <ol>
          {scene.log.map((line) => (
            <Line key={line.number} scene={scene} line={line} />
          ))}
        </ol>
      </div>
    </section>
  );
}

function Line({ scene, line: { at, event } }: { readonly scene: Scene; readonly line: LogLine }) {
  return (
    <li data-type={event.type}>
      <time class="note">{new Date(at).toLocaleTimeString("en-GB")}</time>
      <span>
        {sentenceOf(event).map((phrase) =>
          typeof phrase === "string" ? phrase : <FenceText fence={phrase.fence} among={scene.grants} />,
        )}
      </span>
    </li>
  );
}
