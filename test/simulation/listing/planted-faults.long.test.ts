/** Faults planted in how a key is listed and deletes itself, each of which the simulation must find. */
import { type Fault, findsAll } from "../planting.ts";
import { simulateListing } from "./simulation.ts";

const FAULTS: readonly Fault[] = [
  {
    what: "a key deletes itself without looking again",
    file: "key-commands.ts",
    code: "|| !isUnlisted || !this.#mayDelete(engine)) {",
    planted: "|| !isUnlisted) {",
  },
  {
    what: "a key deletes itself while its clock is behind its fence, or soon after its last use",
    file: "key-commands.ts",
    code: "const KEPT_MS = 3_600_000;",
    planted: "const KEPT_MS = 60_000;",
  },
  {
    what: "a key that is not deleted sets no alarm",
    file: "key-commands.ts",
    code: "    if (!this.#mayDelete(engine) || listing.isPending) {\n      wakeBy(this.#nextLook(engine));",
    planted: "    if (!this.#mayDelete(engine) || listing.isPending) {",
  },
  {
    what: "the alarm of a key that cannot be deleted fires at once, again and again",
    file: "key-commands.ts",
    code: "return Math.max(next, now + PRUNE_RETRY_MS, isPassedAt);",
    planted: "return Math.min(next, now + PRUNE_RETRY_MS, isPassedAt);",
  },
  {
    what: "a key that is used while it is unlisted believes that it is listed",
    file: "key-listing.ts",
    code: "    const { name, directory, count } = this.#parts;\n    this.#set(false);",
    planted: "    const { name, directory, count } = this.#parts;",
  },
  {
    what: "a key whose rows may say too much believes that it is listed",
    file: "key-commands.ts",
    code: "listing.loaded(stored?.isListed === true && !this.#mayBeUnlisted);",
    planted: "listing.loaded(stored?.isListed === true);",
  },
  {
    what: "under a cap, a key that gave up its place does not ask for one again",
    file: "key-commands.ts",
    code: "return this.#engine?.idleSince !== undefined || !this.#engine;",
    planted: "return !this.#engine;",
  },
  {
    what: "under a cap, a key that was refused counts as listed",
    file: "key-listing.ts",
    code: "    if (isAdmitted) {\n      this.#set(true);",
    planted: "    this.#set(true);\n    if (isAdmitted) {",
  },
  {
    what: "a listing that failed counts as made",
    file: "key-listing.ts",
    code: "      this.#failed(error);\n      this.#retryAt",
    planted: "      this.#set(true);\n      this.#retryAt",
  },
];

findsAll({ host: "listing", sources: "src/cloudflare/key", simulate: simulateListing }, FAULTS);
