/** Faults planted in the sources, most of them in the session core, each of which the simulation must find. */
import { type Fault, findsAll } from "./planting.ts";
import { simulate } from "./simulation.ts";

const FAULTS: readonly Fault[] = [
  {
    what: "two requests share an id",
    file: "wire/request-names.ts",
    code: "this.#lastId += 1;",
    planted: "",
  },
  {
    what: "a key is used without being stored first",
    file: "holdings.ts",
    code: 'this.#context.emit({ type: "storeKey", key });',
    planted: "",
  },
  {
    what: "a session ends without leaving its keys",
    file: "socket-session.ts",
    code: `this.requests.end({ keepsOwner: false });
    this.#leaving.begin();`,
    planted: "this.requests.end({ keepsOwner: false });",
  },
  {
    what: "a steal that is repeated steals again",
    file: "resumption.ts",
    code: "if (this.#steals.includes(tag)) return false;",
    planted: "",
  },
  {
    what: "a silent session never ends",
    file: "polled-session.ts",
    code: "if (!this.#isOver && isSilent()) this.end();",
    planted: "if (!this.#isOver && isSilent()) return false;",
  },
  {
    what: "a cancelled request is not withdrawn",
    file: "requests.ts",
    code: `entry.whenWithdrawn.push(answer);
    this.#withdrawals.begin(entry, { endsPlace: true });`,
    planted: "answer();",
  },
  {
    what: "a request whose outcome is unknown is not withdrawn",
    from: 406,
    file: "requests.ts",
    code: "if (mayHold(request)) this.#withdrawals.begin(entry, { afterwards: answer, sparesKnown: true });\n    else answer();",
    planted: "if (mayHold(request)) answer();\n    else answer();",
  },
  {
    what: "an absence sets no alarm",
    file: "resumption.ts",
    code: 'this.#context.emit({ type: "wake", by: this.endsAt });',
    planted: "",
  },
  {
    what: "a client that hangs up stays in the queue",
    file: "polled-session.ts",
    code: 'else this.requests.withdraw(id, key, { endsPlace: type === "wait" });',
    planted: "else if (entry) this.requests.table.remove(entry);",
  },
  {
    what: "a request that nobody comes to poll for stays in the queue",
    file: "polled-session.ts",
    code: "entry.timer = timers.at(now + POLL_COMES_WITHIN_MS, leave);",
    planted: "",
  },
  {
    what: "a client that hangs up before it polls stays in the queue",
    file: "requests.ts",
    code: "this.#withdrawals.begin(entry, { ...how, endsPlace, sparesKnown: true });",
    planted: "if (!endsPlace || endsPlace) this.table.remove(entry);",
  },
  {
    what: "a `wait` that is made again takes the place from a later one",
    from: 5_816,
    file: "polled-session.ts",
    code: 'if (type === "wait" && table.some(isBeingAsked)) {',
    planted: "if (table.some(() => false)) {",
  },
  {
    what: "a pick-up that failed is not repeated",
    file: "pick-ups.ts",
    code: `notice, error });
        this.#chase(entry, 0);`,
    planted: "notice, error });",
  },
  {
    what: "a grant is given back that its client may have been told of",
    file: "requests.ts",
    code: 'return answer === "gone" && mayBeTold ? "taken" : answer;',
    planted: "return answer;",
  },
  {
    what: "a session without its socket gives back what its client may have been told of",
    from: 1_234,
    file: "requests.ts",
    code: 'return mayBeTold && !(hasLeft && this.#context.config.autoRelease) ? "taken" : "gone";',
    planted: 'return "gone";',
  },
  {
    what: "an offer that comes twice is given back the second time",
    from: 615,
    file: "requests.ts",
    code: 'if (offer && this.#told.includes(offer.token)) return "taken";',
    planted: "",
  },
  {
    what: "a wait goes on whose client was told that it is over",
    from: 730,
    file: "requests.ts",
    code: 'if (answer === "noted" && kind !== "granted" && this.#told.includes(request)) return "taken";',
    planted: "",
  },
  {
    what: "a sleep loses the requests that wait",
    file: "wire/conversation.ts",
    code: "for (const each of waiting)",
    planted: "for (const each of waiting.slice(waiting.length))",
  },
  {
    what: "a renewal does not say that somebody waits",
    file: "requests.ts",
    code: "const { status, ...lease } = outcome as RenewOutcome;",
    planted: "const { status, isWanted: _, ...lease } = outcome as RenewOutcome & { isWanted?: true };",
  },
  {
    what: "a `wait` whose outcome is unknown takes a hold back that its client knew",
    from: 455,
    file: "requests.ts",
    code: "this.#withdrawals.begin(entry, { afterwards: answer, sparesKnown: true });",
    planted: "this.#withdrawals.begin(entry, { afterwards: answer });",
  },
  {
    what: "a key that could not be left is forgotten",
    file: "leaving.ts",
    code: "else missed += 1;",
    planted: "else left.push(key);",
  },
  {
    what: "a release that was carried out is denied when it is made again",
    file: "key-calls.ts",
    code: 'return { type: "release", token: request.token, session, id };',
    planted: 'return { type: "release", token: request.token, session } as KeyCall;',
  },
  {
    what: "a key that has lost its memory denies a release that it has carried out",
    file: "../engine/releases.ts",
    code: "for (const [id, fence] of releases) this.#set(id, fence);",
    planted: "for (const [id, fence] of releases.slice(releases.length)) this.#set(id, fence);",
  },
  {
    what: "a call overtakes one that is made again",
    file: "../../cloudflare/calls/key-lane.ts",
    code: "return !isAgain && on !== undefined && on === this.#currentStub();",
    planted: "return isAgain || on === undefined || on !== undefined;",
  },
];

findsAll({ host: "cloudflare", sources: "src/core/session", simulate }, FAULTS);
