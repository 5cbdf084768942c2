import { describe, expect, it } from "vitest";
import { agentName, labelFor, partsOf } from "../../../src/cli/mcp/labels.ts";

describe("the label of an agent's lock", () => {
  it("says who and what for, and can be taken apart again", () => {
    const label = labelFor("ada", "adding a column: users.email");
    expect(label).toBe("ada: adding a column: users.email");
    expect(partsOf(label)).toEqual({ holder: "ada", reason: "adding a column: users.email" });
    expect(partsOf(labelFor("ada", undefined))).toEqual({ holder: "ada" });
    expect(partsOf("root@vm:4711")).toEqual({ holder: "root@vm:4711" });
  });

  it("is at most 64 characters that can be printed", () => {
    const label = labelFor(agentName("a".repeat(64), undefined), "x\n\u001b[2J".repeat(40));
    expect([...label]).toHaveLength(64);
    expect(label).toMatch(/^a{40}: x .*…$/);
    expect(label).not.toMatch(/\p{Cc}/u);
  });

  it("names the agent's program, the user, the machine and the process, unless it is given", () => {
    expect(agentName(undefined, "claude-code")).toMatch(/^claude-code \S+@\S+/);
    expect(agentName(undefined, undefined)).toMatch(new RegExp(`@.*:${process.pid}$`));
    expect(agentName("ada", "claude-code")).toBe("ada");
  });
});
