import { nextStep, STEPS, type Step, type Story } from "../state/story.ts";

const SENTENCES: Readonly<Record<Step, string>> = {
  acquire: "Let Ada acquire: the key is free, so it is hers at once.",
  queue: "Let Ben and Cleo acquire as well: they queue, first come, first served.",
  "hand-over": "Let Ada release: Ben came first and gets it, with a higher fence.",
  expiry: "Freeze Ben: his lease runs out, unrenewed, and Cleo gets the lock.",
  refusal: "Let Cleo write, then thaw Ben and let him write: refused, his fence is old.",
};

/** The tutorial. Steps are ticked as they are done, in any order. */
export function StoryPanel({ story, onRestart }: { readonly story: Story; readonly onRestart: () => void }) {
  const next = nextStep(story);
  return (
    <section class="panel story" aria-labelledby="story-title">
      <div class="top">
        <h2 id="story-title">In one minute</h2>
        {next === undefined && <p>You have seen it all: first come, first served; leases; fences.</p>}
        <button type="button" class="quiet" onClick={onRestart}>
          Start over
        </button>
      </div>
      <ol>
        {STEPS.map((step) => {
          const isDone = story.done.includes(step);
          return (
            <li key={step} class={isDone ? "done" : ""} aria-current={step === next ? "step" : undefined}>
              <span class="tick" aria-hidden="true" />
              <span>
                {isDone && <span class="unseen">Done: </span>}
                {SENTENCES[step]}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
