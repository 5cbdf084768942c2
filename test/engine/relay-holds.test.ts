import { describe, expect, it } from "vitest";
import type { RelayQuestion } from "../../src/core/engine/index.ts";
import { Story } from "./story.ts";

class RelayStory extends Story {
  #order = 0n;

  ask(relay: string, type: "propose" | "schedule" | "off" | "withdraw"): string {
    return this.put({ relay, type });
  }

  commit(relay: string, leaseMs: number, fence?: bigint): string {
    return this.put({ relay, type: "commit", leaseMs, ...(fence !== undefined && { fence }) });
  }

  put(question: RelayQuestion): string {
    return this.run({ do: "relay", question }).status;
  }

  /** A question whose order is known. */
  ordered(type: "propose" | "schedule" | "off", order = ++this.#order): string {
    return this.put({ relay: "s1", type, order });
  }

  get fence(): bigint | undefined {
    return this.engine.relays.fenceOfHolder(this.context());
  }
}

describe("what another deployment asks of a key", () => {
  it("takes a free key for a second, and for another one each time it is asked again", () => {
    const story = new RelayStory();
    expect(story.ask("s1", "propose")).toBe("agreed");
    expect(story.ask("s2", "propose")).toBe("held_for_another");
    story.now += 600;
    expect(story.ask("s1", "schedule")).toBe("agreed");
    expect(story.ask("s2", "schedule")).toBe("held_for_another");
    story.now += 600;
    expect(story.ask("s2", "propose")).toBe("held_for_another");
    story.now += 400;
    expect(story.ask("s2", "propose")).toBe("agreed");
    expect(story.ask("s1", "schedule")).toBe("held_for_another");
  });

  it("makes a hold firm for its time, and only its own", () => {
    const story = new RelayStory();
    expect(story.commit("s1", 3_000)).toBe("not_held");
    story.ask("s1", "propose");
    expect(story.commit("s1", 3_000)).toBe("agreed");
    expect(story.commit("s2", 1_000)).toBe("held_for_another");
    expect(story.ask("s1", "propose")).toBe("agreed");
    story.now += 2_999;
    expect(story.ask("s2", "propose")).toBe("held_for_another");
    story.now += 1;
    expect(story.ask("s2", "propose")).toBe("agreed");
  });

  it("is refused while a client here has the lock, or the key is a semaphore", () => {
    const story = new RelayStory();
    const token = story.hold("ada");
    expect(story.ask("s1", "propose")).toBe("held");
    expect(story.ask("s1", "schedule")).toBe("not_held");
    expect(story.commit("s1", 1_000)).toBe("not_held");
    story.run({ do: "release", token, session: "ada" });
    expect(story.ask("s1", "propose")).toBe("agreed");
    const semaphore = new RelayStory({ limit: 3 });
    expect(semaphore.ask("s1", "propose")).toBe("held");
  });

  it("makes everybody else wait, and serves them when it ends", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    story.commit("s1", 1_500);
    expect(story.acquire("ada", { wait: 10 }).status).toBe("queued");
    story.now += 1_500;
    story.run({ do: "tick" });
    expect(story.events).toMatchObject([{ type: "notice", session: "ada", kind: "granted" }]);
  });

  it("shows as held once it is firm, by the fence of the grant if that is known", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    expect(story.fence).toBeUndefined();
    story.commit("s1", 1_000);
    expect(story.fence).toBe(0n);
    story.commit("s1", 1_000, 8_000_000_000_000_000_000n);
    expect(story.fence).toBe(8_000_000_000_000_000_000n);
    story.run({ do: "reload" });
    expect(story.fence).toBe(8_000_000_000_000_000_000n);
  });

  it("raises the fences of the key, and never lowers them, also over a restart", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    story.commit("s1", 1_000, 8_000_000_000_000_000_000n);
    story.ask("s1", "off");
    expect(story.run({ do: "relay", question: { relay: "s1", type: "propose" } })).toMatchObject({
      floor: 8_000_000_000_000_000_000n,
    });
    story.commit("s1", 1_000, 5n);
    expect(story.fence).toBe(5n);
    // About an earlier grant of the same deployment.
    expect(story.commit("s1", 1, 4n)).toBe("held_for_another");
    story.run({ do: "reload" });
    story.ask("s1", "off");
    const token = story.hold("ada");
    expect(BigInt(`0x${token.slice(0, 16)}`)).toBeGreaterThan(8_000_000_000_000_000_000n);
  });

  it("frees its own hold, and nobody else's; a lost connection only what is not firm", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    story.ask("s2", "off");
    expect(story.ask("s2", "propose")).toBe("held_for_another");
    story.ask("s1", "withdraw");
    expect(story.ask("s2", "propose")).toBe("agreed");
    story.commit("s2", 60_000);
    story.ask("s2", "withdraw");
    expect(story.ask("s1", "propose")).toBe("held_for_another");
    story.ask("s2", "off");
    expect(story.ask("s1", "propose")).toBe("agreed");
  });

  it("is ignored if a later question of the same relay was here before it", () => {
    const story = new RelayStory();
    story.ordered("propose", 5n);
    expect(story.ordered("off", 4n)).toBe("held_for_another");
    expect(story.ordered("schedule", 6n)).toBe("agreed");
    expect(story.put({ relay: "s1", type: "commit", leaseMs: 60_000, order: 7n })).toBe("agreed");
    expect(story.put({ relay: "s1", type: "commit", leaseMs: 1, order: 3n })).toBe("held_for_another");
    expect(story.ordered("off", 6n)).toBe("held_for_another");
    expect(story.ordered("off", 8n)).toBe("agreed");
    expect(story.engine.view().holderCount).toBe(0);
  });

  it("is counted as a grant when it is firm, and not before", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    story.now += 1_000;
    story.ask("s1", "propose");
    story.commit("s1", 1_000);
    story.ask("s1", "off");
    expect(story.observations.filter(({ type }) => type === "granted")).toHaveLength(1);
  });

  it("is ignored if it was overtaken before a restart, also by a question about a firm hold", () => {
    const story = new RelayStory();
    story.ordered("propose", 5n);
    story.put({ relay: "s1", type: "commit", leaseMs: 60_000, order: 6n });
    story.ordered("propose", 9n);
    story.reload();
    expect(story.ordered("off", 7n)).toBe("held_for_another");
  });

  it("ends the grant before it in statistics, if the relay's `OFF` of that was lost", () => {
    const story = new RelayStory();
    story.ask("s1", "propose");
    const first = story.engine.lastFence + 10n;
    story.commit("s1", 60_000, first);
    story.ask("s1", "propose");
    story.commit("s1", 60_000, first + 10n);
    story.ask("s1", "off");
    const fences = [first, first + 10n].map((fence) => fence.toString(16).padStart(16, "0"));
    const of = (type: string) => story.observations.filter((seen) => seen.type === type);
    expect(of("granted")).toMatchObject(fences.map((fence) => ({ fence })));
    expect(of("ended")).toMatchObject(fences.map((fence) => ({ fence, reason: "released", holdMs: 0 })));
  });
});
