/** Faults planted in the Node host, each of which its simulation must find. */
import { type Fault, findsAll } from "../planting.ts";
import { simulateNode } from "./simulation.ts";

const FAULTS: readonly Fault[] = [
  {
    what: "answers leave before the commit",
    file: "batch.ts",
    code: "const fault = this.#fault ?? this.#commit();",
    planted: `if (!this.#fault) for (const { done } of steps.splice(0)) done();
    const fault = this.#fault ?? this.#commit();`,
  },
  {
    what: "a key is not read again after a failed commit",
    file: "keys.ts",
    code: "key.restore(stored);",
    planted: "",
  },
  {
    what: "the highest fence of deleted keys is not stored",
    file: "keys.ts",
    code: "if (this.#isMarkChanged) rows.putValue(FENCE_MARK, this.#markHex);",
    planted: "",
  },
  {
    what: "a lease begins before its grant has left",
    from: 687,
    file: "session.ts",
    code: 'if (answer === "taken" && notice.isGrant)',
    planted: 'if (answer === "taken" && !notice.isGrant)',
  },
  {
    what: "rows of sessions that have ended stay",
    file: "sessions.ts",
    code: "else if (session.rowId > 0) rows.deleteSession(session.rowId);",
    planted: "",
  },
  {
    what: "waiters of lost sessions stay in the queue at the start",
    file: "host.ts",
    code: "for (const name of keysOf.keys()) this.#gone.set(name, { name, hasLeft: false });",
    planted: "",
  },
  {
    what: "clients of a failed batch keep their sockets",
    file: "client-session.ts",
    code: `this.#carrier?.close(FAULT);
    this.#carrier = undefined;`,
    planted: "this.#carrier = undefined;",
  },
  {
    what: "a socket that was about to be closed stays open if the batch fails",
    file: "client-session.ts",
    code: "() => carrier?.close(FAULT),",
    planted: "() => {},",
  },
  {
    what: "a client is attached to a session that was dropped",
    file: "client-session.ts",
    code: "if (this.isDropped) carrier.close(FAULT);",
    planted: "",
  },
  {
    what: "what a failed batch has caused still happens",
    file: "batch.ts",
    code: ".filter(({ cause }) => cause !== this.#number)",
    planted: "",
  },
  {
    what: "commands run while the batch before them is told",
    from: 246,
    file: "batch.ts",
    code: "if (!this.#isRunning && !this.#isSettling) this.#run();",
    planted: "if (!this.#isRunning) this.#run();",
  },
  {
    what: "a caller whose command throws is never answered",
    file: "batch.ts",
    code: `this.afterwards(() => resolve(result), reject);
      result = command();`,
    planted: `result = command();
      this.afterwards(() => resolve(result), reject);`,
  },
  {
    what: "a key whose command has thrown is used as it is",
    file: "keys.ts",
    code: `this.#changed.add(key);
      throw error;`,
    planted: "throw error;",
  },
  {
    what: "a grant is told after its lease has ended",
    file: "client-session.ts",
    code: "if (runs()) return line;",
    planted: "if (runs() || grant) return line;",
  },
  {
    what: "lost sessions are forgotten before they have left their keys",
    from: 975,
    file: "host.ts",
    code: "if (this.#isRecovering) this.#gone.clear();",
    planted: "this.#gone.clear();",
  },
  {
    what: "a failed batch leaves requests of HTTP sessions in the queue",
    file: "rest-session.ts",
    code: "this.#abandoned = [...this.#abandoned, ...this.#hangUps, ...asked];",
    planted: "this.#abandoned = [...this.#abandoned, ...this.#hangUps, ...asked.slice(asked.length)];",
  },
  {
    what: "a failed batch leaves claims in the queue",
    from: 5_151,
    file: "claims.ts",
    code: `this.#abandoned.set(request, key);
        reject(error);`,
    planted: "reject(error);",
  },
  {
    what: "a deadline is lost when its command throws",
    from: 411,
    file: "timers.ts",
    code: `this.#deadlines.schedule(due);
        }`,
    planted: "}",
  },
  {
    what: "a request that is repeated while nothing can be stored is denied",
    from: 231,
    file: "../core/session/requests.ts",
    code: " && !this.#owner?.mayRepeat?.(entry.id)",
    planted: "",
  },
  {
    what: "restored sessions do not go on",
    file: "host.ts",
    code: "this.sessions.revive();",
    planted: "",
  },
  {
    what: "a wait outlives the abort of its signal",
    file: "claims.ts",
    code: "if (this.#waiting.delete(request)) batch.enter(() => this.#withdraw(request, key));",
    planted: "this.#waiting.delete(request);",
  },
];

findsAll({ host: "node", sources: "src/node", simulate: simulateNode }, FAULTS);
