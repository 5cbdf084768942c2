import type { PlaygroundEvent } from "./event.ts";

/** The steps of the tutorial. */
export const STEPS = ["acquire", "queue", "hand-over", "expiry", "refusal"] as const;
export type Step = (typeof STEPS)[number];

/** Progress of the tutorial, whichever clients take part. */
export interface Story {
  readonly done: readonly Step[];
  readonly waiting: readonly string[];
  readonly holding: readonly string[];
  readonly frozen: readonly string[];
  /** How the last slot became free, until it is granted again. */
  readonly freed: "released" | "closed" | undefined;
}

export const BEGINNING: Story = { done: [], waiting: [], holding: [], frozen: [], freed: undefined };

export function advance(story: Story, event: PlaygroundEvent): Story {
  const { who } = event;
  switch (event.type) {
    case "waits":
    case "enqueued":
      return withQueue({ ...story, waiting: [...without(story.waiting, who), who] });
    case "acquired":
      return withGrant(story, who);
    case "released":
      return { ...story, holding: without(story.holding, who), freed: "released" };
    case "froze":
      return { ...story, frozen: [...story.frozen, who] };
    case "thawed":
      return { ...story, frozen: without(story.frozen, who) };
    case "left":
      return gone(story, who);
    case "gave up":
    case "lapsed":
    case "failed":
    case "lost":
      return { ...story, waiting: without(story.waiting, who), holding: without(story.holding, who) };
    case "refused":
      return done(story, "refusal");
    case "joined":
    case "wrote":
      return story;
  }
}

/** The first step that is not done. */
export function nextStep({ done }: Story): Step | undefined {
  return STEPS.find((step) => !done.includes(step));
}

function withQueue(story: Story): Story {
  return story.waiting.length >= 2 ? done(story, "queue") : story;
}

function withGrant(story: Story, who: string): Story {
  const hasWaited = story.waiting.includes(who);
  const hasStalled = story.holding.some((holder) => story.frozen.includes(holder));
  const next = {
    ...done(story, "acquire"),
    waiting: without(story.waiting, who),
    holding: [...without(story.holding, who), who],
    freed: undefined,
  };
  if (!hasWaited) return next;
  if (story.freed === "released") return done(next, "hand-over");
  return story.freed === undefined && hasStalled ? done(next, "expiry") : next;
}

function gone(story: Story, who: string): Story {
  return {
    ...story,
    waiting: without(story.waiting, who),
    frozen: without(story.frozen, who),
    holding: without(story.holding, who),
    freed: story.holding.includes(who) ? "closed" : story.freed,
  };
}

function done(story: Story, step: Step): Story {
  return story.done.includes(step) ? story : { ...story, done: [...story.done, step] };
}

function without(names: readonly string[], name: string): readonly string[] {
  return names.filter((other) => other !== name);
}
