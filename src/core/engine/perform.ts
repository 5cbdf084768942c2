import type {
  AcquireCommand,
  AcquireOutcome,
  CancelOptions,
  CommandContext,
  EnqueueCommand,
  EnqueueOutcome,
  PickUpOutcome,
  Refusal,
  ReleaseOutcome,
  RenewOutcome,
  StealOutcome,
  WaitCommand,
  WaitOutcome,
} from "./commands.ts";
import type { KeyEngine } from "./engine.ts";
import { type Fence, FenceExhaustedError } from "./fence.ts";
import type { RelayAnswer, RelayQuestion } from "./relay-holds.ts";
import type { RoundEnd, RoundOf } from "./rounds.ts";
import type {
  ClaimCommand,
  ClaimOutcome,
  CurrentHold,
  HoldSelector,
  RefreshCommand,
  RefreshOutcome,
  RemoveOutcome,
} from "./sessionless.ts";
import type { KeyView } from "./views.ts";

/** What the relay of this deployment has to say about a round. */
export type RoundStep =
  | ({ readonly do: "keep" | "agree" } & RoundOf)
  | ({ readonly do: "fence"; readonly floor: Fence } & RoundOf)
  | ({ readonly do: "fail"; readonly end: RoundEnd } & RoundOf);

/** The highest fence of those that have the lock, 0 if it is not known here. */
export type FenceOutcome = { readonly status: "held"; readonly fence: Fence } | Refusal<"free">;

/** A hold that other deployments have agreed to, and how long they keep it for us. */
export interface AgreedHold {
  readonly fence: Fence;
  readonly remainingMs: number;
}

/** Everything that can be asked of a key, as plain data: it may cross a process or an object on the way. */
export type KeyCommand =
  | { readonly type: "acquire"; readonly command: AcquireCommand }
  | { readonly type: "enqueue"; readonly command: EnqueueCommand }
  | { readonly type: "wait"; readonly command: WaitCommand }
  /** `id`: the same if the call is made again, because its answer was lost. So for the other commands that have one. */
  | { readonly type: "release"; readonly token: string; readonly session: string; readonly id?: string }
  /** Like `release`, but only for the session that holds the slot. */
  | { readonly type: "giveBack"; readonly token: string; readonly session: string; readonly id?: string }
  /** `isWatched`: the session wants to hear at once when the lease ends. */
  | { readonly type: "renew"; readonly token: string; readonly leaseSeconds: number; readonly isWatched?: true }
  | { readonly type: "pickUp"; readonly request: string }
  | ({ readonly type: "cancel"; readonly request: string } & CancelOptions)
  /** The session wants to hear at once when a lease of its own ends. */
  | { readonly type: "watch"; readonly session: string }
  | { readonly type: "leave"; readonly session: string; readonly keepsReported: boolean }
  /** `fence`: 16 hex digits. */
  | { readonly type: "steal"; readonly fence: string }
  /** For holders without a session. `collect` asks for the outcome of a claim that was answered `queued`. */
  | { readonly type: "claim"; readonly command: ClaimCommand }
  | { readonly type: "collect"; readonly request: string }
  | { readonly type: "current" }
  | { readonly type: "refresh"; readonly command: RefreshCommand }
  | { readonly type: "remove"; readonly selector: HoldSelector; readonly id?: string }
  /** Of the relay of another deployment. */
  | { readonly type: "relay"; readonly question: RelayQuestion }
  /** Of the relay of this deployment. */
  | { readonly type: "round"; readonly step: RoundStep }
  | { readonly type: "agreedHold"; readonly token: string; readonly session: string }
  /** The others, asked at `askedAt`, keep the lock for `leaseMs` from then on, and a second more. */
  | { readonly type: "prolongAgreed"; readonly token: string; readonly leaseMs: number; readonly askedAt: number }
  | { readonly type: "fenceOfHolder" }
  /** `detail` adds the waiters. Changes nothing except what is due to expire. */
  | { readonly type: "describe"; readonly detail: boolean };

interface Outcomes {
  acquire: AcquireOutcome;
  enqueue: EnqueueOutcome;
  wait: WaitOutcome;
  release: ReleaseOutcome;
  giveBack: ReleaseOutcome;
  renew: RenewOutcome;
  pickUp: PickUpOutcome;
  cancel: undefined;
  watch: undefined;
  leave: undefined;
  steal: StealOutcome;
  claim: ClaimOutcome;
  collect: ClaimOutcome;
  /** Undefined if the key is free. */
  current: CurrentHold | undefined;
  refresh: RefreshOutcome;
  remove: RemoveOutcome;
  /** Undefined if the key can hold nothing for the asker. */
  relay: RelayAnswer | undefined;
  /** False or undefined if the key has given the round up. */
  round: Fence | boolean | undefined;
  /** Undefined if the session holds nothing with this token that others have agreed to. */
  agreedHold: AgreedHold | undefined;
  /** False if the hold has ended meanwhile. */
  prolongAgreed: boolean;
  fenceOfHolder: FenceOutcome;
  /** Undefined if the key has been idle for long enough to count as pruned. */
  describe: KeyView | undefined;
}

export type KeyCommandType = KeyCommand["type"];

/** The command of this type. */
export type KeyCommandOf<Type extends KeyCommandType> = Extract<KeyCommand, { readonly type: Type }>;

/** What a key answers to a command of this type. */
export type KeyOutcomeOf<Type extends KeyCommandType> = Outcomes[Type];

/** Why a command that would have created its key, or granted a slot, has changed nothing. */
export type CreationRefusal = "max_locks" | "fence_persistence";

interface Rule<Type extends KeyCommandType> {
  /** Carries the command out. */
  readonly run: (engine: KeyEngine, command: KeyCommandOf<Type>, context: CommandContext) => Outcomes[Type];
  /** What is answered if the key does not exist and the command does not create it. */
  readonly missing: Outcomes[Type];
  /** The limit of the key that the command creates if there is none; undefined if it creates none. */
  readonly creates?: (command: KeyCommandOf<Type>) => number | undefined;
  /** What is answered if the key must not be created, or has no fence left. */
  readonly refused?: (status: CreationRefusal) => Outcomes[Type];
}

const refuse = (status: CreationRefusal) => ({ status });
const NOT_HELD = { status: "not_held" } as const;

/** The command table: for each command its engine method, whether it may create the key, and what a missing key answers. */
const RULES: { readonly [Type in KeyCommandType]: Rule<Type> } = {
  acquire: {
    run: (engine, { command }, context) => engine.acquire(command, context),
    missing: { status: "max_locks" },
    creates: ({ command }) => command.limit,
    refused: refuse,
  },
  enqueue: {
    run: (engine, { command }, context) => engine.enqueue(command, context),
    missing: { status: "max_locks" },
    creates: ({ command }) => command.limit,
    refused: refuse,
  },
  wait: {
    run: (engine, { command }, context) => engine.wait(command, context),
    missing: { status: "not_enqueued" },
  },
  release: {
    run: (engine, { token, session, id }, context) => engine.release(token, session, context, id),
    missing: NOT_HELD,
  },
  giveBack: {
    run: (engine, { token, session, id }, context) => engine.giveBack(token, session, context, id),
    missing: NOT_HELD,
  },
  renew: {
    run: (engine, { token, leaseSeconds, isWatched }, context) =>
      engine.renew(token, leaseSeconds, context, isWatched === true),
    missing: NOT_HELD,
  },
  pickUp: {
    run: (engine, { request }, context) => engine.pickUp(request, context),
    missing: { status: "unknown" },
  },
  cancel: {
    run: (engine, { type: _, request, ...options }, context) => void engine.cancel(request, context, options),
    missing: undefined,
  },
  watch: { run: (engine, { session }) => void engine.watch(session), missing: undefined },
  leave: {
    run: (engine, { session, keepsReported }, context) => void engine.leave(session, { keepsReported }, context),
    missing: undefined,
  },
  steal: { run: (engine, { fence }, context) => engine.steal(fence, context), missing: NOT_HELD },
  claim: {
    run: (engine, { command }, context) => engine.claim(command, context),
    missing: { status: "max_locks" },
    creates: ({ command }) => command.limit ?? 1,
    refused: refuse,
  },
  collect: {
    run: (engine, { request }, context) => engine.collect(request, context),
    missing: { status: "lease_expired" },
  },
  current: { run: (engine, _, context) => engine.current(context), missing: undefined },
  refresh: { run: (engine, { command }, context) => engine.refresh(command, context), missing: NOT_HELD },
  remove: { run: (engine, { selector, id }, context) => engine.remove(selector, context, id), missing: NOT_HELD },
  relay: {
    run: (engine, { question }, context) => engine.relays.ask(question, context),
    missing: { status: "not_held", floor: 0n },
    creates: ({ question }) => (question.type === "propose" ? 1 : undefined),
    refused: () => undefined,
  },
  round: { run: (engine, { step }, context) => takeRoundStep(engine, step, context), missing: false },
  agreedHold: {
    run: (engine, { token, session }, context) => engine.rounds.agreed(token, session, context),
    missing: undefined,
  },
  prolongAgreed: {
    run: (engine, { token, leaseMs, askedAt }, context) => engine.rounds.prolong(token, leaseMs, askedAt, context),
    missing: false,
  },
  fenceOfHolder: {
    run: (engine, _, context) => {
      const fence = engine.relays.fenceOfHolder(context);
      return fence === undefined ? { status: "free" } : { status: "held", fence };
    },
    missing: { status: "free" },
  },
  describe: {
    run: (engine, { detail }, context) => {
      engine.tick(context);
      return engine.isPrunable(context) ? undefined : engine.view({ detail });
    },
    missing: undefined,
  },
};

/**
 * Carries out one command on a key. A key without fences refuses what would be granted: that is a regular outcome. The
 * other commands throw a `FenceExhaustedError` then. In both cases what the engine has changed is to be stored.
 */
export function perform<Type extends KeyCommandType>(
  engine: KeyEngine,
  command: KeyCommandOf<Type>,
  context: CommandContext,
): KeyOutcomeOf<Type> {
  const { run, refused } = ruleOf(command);
  try {
    return run(engine, command, context);
  } catch (error) {
    if (refused && limitIfNew(command) !== undefined && error instanceof FenceExhaustedError)
      return refused("fence_persistence");
    throw error;
  }
}

/** The limit of the key that this command creates if there is none; undefined if it creates none. */
export function limitIfNew<Type extends KeyCommandType>(command: KeyCommandOf<Type>): number | undefined {
  return ruleOf(command).creates?.(command);
}

/**
 * What a command is answered if its key does not exist: it creates none, or must not, because there are as many keys as
 * the service allows. A `renew` of a missing key counts as a failed renewal, which no engine observes.
 */
export function outcomeWithoutKey<Type extends KeyCommandType>(
  command: KeyCommandOf<Type>,
  refusal: CreationRefusal = "max_locks",
): KeyOutcomeOf<Type> {
  const { missing, refused } = ruleOf(command);
  return refused && limitIfNew(command) !== undefined ? refused(refusal) : missing;
}

function ruleOf<Type extends KeyCommandType>({ type }: KeyCommandOf<Type>): Rule<Type> {
  const rule: Rule<Type> | undefined = RULES[type as Type];
  if (!rule) throw new Error(`unknown command ${type}`);
  return rule;
}

function takeRoundStep({ rounds }: KeyEngine, step: RoundStep, context: CommandContext): Fence | boolean | undefined {
  switch (step.do) {
    case "keep":
      return rounds.keep(step, context);
    case "fence":
      return rounds.fence(step, step.floor, context);
    case "agree":
      return rounds.agree(step, context);
    case "fail":
      rounds.fail(step, step.end, context);
      return undefined;
  }
}
