import { describe, expect, it } from "vitest";
import { Deployment } from "./deployment.ts";

/** The fence in a line. */
const fenceIn = (line = "") => line.split(" ")[2] ?? "";

/** `ada` has the lock `door` for a minute, and `bob` is connected. */
function held(options?: ConstructorParameters<typeof Deployment>[0]) {
  const deployment = new Deployment(options);
  const ada = deployment.client("ada");
  const [given] = ada.say("ON door 60000 a1");
  return { deployment, ada, bob: deployment.client("bob"), fence: fenceIn(given) };
}

describe("a client says who it is", () => {
  it("or does not have to, where no token is set", () => {
    const client = new Deployment().client("ada");
    expect(client.say("HELLO 1.0 n1")).toEqual(["HELLO n1 holdfast holdfast/1.0.0"]);
    expect(client.say("IS door n2", "HELLO 1.0 n3")).toEqual(["NO n2", "HELLO n3 holdfast holdfast/1.0.0"]);
  });

  it("with `AUTH` as its first line, and is greeted", () => {
    const deployment = new Deployment({ config: { authToken: "secret" } });
    const client = deployment.client("ada", { isAuthenticated: false });
    expect(client.say("AUTH secret n1", "ON door 1000 n2")).toEqual([]);
    const [hello, give] = client.authenticate((secret) => secret === "secret");
    expect(hello).toBe("HELLO n1 holdfast holdfast/1.0.0");
    expect(give).toMatch(/^GIVE n2 \d+$/);
  });

  it.each([
    ["a wrong token", "AUTH wrong n1"],
    ["anything else first", "ON door 1000 n1"],
    ["a line that is none", "nonsense"],
  ])("and is refused after a pause with %s; nothing is carried out", (_, line) => {
    const deployment = new Deployment({ config: { authToken: "secret" } });
    const client = deployment.client("ada", { isAuthenticated: false });
    const heard = [...client.say(line, "ON door 1000 n2"), ...client.authenticate(() => false)];
    expect(heard).toEqual(["ERR - auth-required"]);
    expect(client.closedWith).toBeUndefined();
    deployment.pass(100);
    expect(client.closedWith).toBe(4401);
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("in time", () => {
    const deployment = new Deployment({ config: { authToken: "secret" } });
    const client = deployment.client("ada", { isAuthenticated: false });
    deployment.pass(30_000);
    expect(client.heard).toEqual(["ERR - auth-required"]);
  });

  it("and loses everything by a wrong `AUTH` later on", () => {
    const deployment = new Deployment({ config: { authToken: "secret" } });
    const client = deployment.client("ada");
    client.say("ON door 60000 n1", "AUTH wrong n2");
    expect(client.authenticate(() => false)).toEqual(["ERR - auth-required"]);
    deployment.pass(100);
    expect(client.closedWith).toBe(4401);
  });

  it("and may use no lock outside its ticket", () => {
    const scope = { operations: ["lock"], keys: ["team/*"], expiresAt: Number.POSITIVE_INFINITY } as const;
    const deployment = new Deployment();
    const client = deployment.client("ada", { rights: { scope, isAdmin: false } });
    expect(client.say("TRY other 1000 n1")).toEqual(["ERR n1 forbidden"]);
    expect(client.closedWith).toBe(4403);
  });
});

describe("a lock", () => {
  it("is given at once if it is free, with a fence that rises from grant to grant", () => {
    const { ada, bob, fence } = held();
    expect(bob.say("IS door b1")).toEqual([`LOCK b1 ${fence}`]);
    ada.say("OFF door a2");
    const [given] = bob.say("TRY door 1000 b2");
    expect(BigInt(fenceIn(given))).toBeGreaterThan(BigInt(fence));
  });

  it("is one lock, whichever connection asks, and the same client on another one is somebody else", () => {
    const { deployment, fence } = held();
    expect(deployment.client("ada too").say("TRY door 1000 n1")).toEqual([`LOCK n1 ${fence}`]);
  });

  it("is free when its lease ends, and its holder is not told", () => {
    const { deployment, ada } = held();
    deployment.pass(60_000);
    expect(ada.heard).toEqual([]);
    expect(ada.say("IS door a2")).toEqual(["NO a2"]);
  });

  it("does not mind an `OFF` of a client that has nothing to do with it", () => {
    const { deployment, bob } = held();
    expect(bob.say("OFF door b1", "OFF never-seen b2", "HELLO 1 b3")).toEqual(["HELLO b3 holdfast holdfast/1.0.0"]);
    expect(deployment.holder("door")).toBe("ada");
  });

  it("is shown as held to a `TRY`, which never waits, not even of a client that does", () => {
    const { deployment, ada, bob, fence } = held();
    bob.say("ON door 1000 b1");
    expect(bob.say("TRY door 1000 b2")).toEqual([`LOCK b2 ${fence}`]);
    ada.say("OFF door a2");
    expect(deployment.waiters("door")).toBe(0);
    expect(bob.heard).toHaveLength(1);
  });
});

describe("a holder", () => {
  it("that asks again gets the same fence, and the lease it asks for, also a shorter one", () => {
    const { deployment, ada, fence } = held();
    expect(ada.say("ON door 2000 a2")).toEqual([`GIVE a2 ${fence}`]);
    expect(deployment.leaseMs("door")).toBe(2_000);
    expect(ada.say("TRY door 9000 a3")).toEqual([`GIVE a3 ${fence}`]);
    expect(deployment.leaseMs("door")).toBe(9_000);
  });

  it("that asks again too late gets in line like everybody else", () => {
    const { deployment, ada, bob, fence } = held();
    bob.say("ON door 60000 b1");
    deployment.pass(60_000);
    expect(bob.heard).toHaveLength(1);
    expect(ada.say("ON door 60000 a2")).toEqual([]);
    bob.say("OFF door b2");
    expect(BigInt(fenceIn(ada.heard[0]))).toBeGreaterThan(BigInt(fence));
  });

  it("prolongs with its fence, and only with that", () => {
    const { deployment, ada, bob, fence } = held();
    expect(ada.say(`REFRESH door ${fence} 90000 a2`)).toEqual([`GIVE a2 ${fence}`]);
    expect(deployment.leaseMs("door")).toBe(90_000);
    expect(ada.say("REFRESH door 1 1000 a3")).toEqual([`LOCK a3 ${fence}`]);
    expect(bob.say(`REFRESH door ${fence} 1000 b1`)).toEqual([`LOCK b1 ${fence}`]);
    expect(deployment.leaseMs("door")).toBe(90_000);
  });

  it("cannot prolong what has ended, even if nobody has taken it", () => {
    const { deployment, ada, fence } = held();
    deployment.pass(60_000);
    expect(ada.say(`REFRESH door ${fence} 1000 a2`)).toEqual(["NO a2"]);
    expect(deployment.holder("door")).toBeUndefined();
  });
});

describe("an `ON` for a lock that is held", () => {
  it("waits, while the lines behind it are carried out", () => {
    const { bob, fence } = held();
    expect(bob.say("ON door 1000 b1", "IS door b2", "HELLO 1 b3")).toEqual([
      `LOCK b2 ${fence}`,
      "HELLO b3 holdfast holdfast/1.0.0",
    ]);
  });

  it("gets it in its turn, for as long as it asked from then on", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 1000 b1");
    const cy = deployment.client("cy");
    cy.say("ON door 1000 c1");
    deployment.pass(5_000);
    ada.say("OFF door a2");
    expect(bob.heard).toEqual([expect.stringMatching(/^GIVE b1 /)]);
    expect(cy.heard).toEqual([]);
    deployment.pass(1_000);
    expect(deployment.holder("door")).toBe("cy");
  });

  it("is answered `NO` if its client changes its mind", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 1000 b1", "ON door 1000 b2");
    expect(bob.say("OFF door b3")).toEqual(["NO b1", "NO b2"]);
    expect(deployment.waiters("door")).toBe(0);
    ada.say("OFF door a2");
    expect(bob.heard).toEqual([]);
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("is one place in the queue, however often its client asks, and is answered for each with the last lease", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 5000 b1", "ON door 7000 b2", "ON door 9000 b3");
    expect(deployment.waiters("door")).toBe(1);
    ada.say("OFF door a2");
    const fence = deployment.holder("door") === "bob" ? fenceIn(bob.say("IS door i")[3]) : "";
    expect(fence).toMatch(/^\d+$/);
    expect(deployment.leaseMs("door")).toBe(9_000);
  });

  it("is not answered with a fence that has ended: it waits again", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 5000 b1", "ON door 1000 b2");
    deployment.slow.add("renew");
    ada.say("OFF door a2", "ON door 60000 a3");
    expect(deployment.holder("door")).toBe("bob");
    deployment.pass(1_000);
    // The answer of the renewal arrives after the end of the lease that it has begun.
    deployment.settle();
    expect(deployment.holder("door")).toBe("ada");
    expect(bob.heard).toEqual([]);
    ada.say("OFF door a4");
    deployment.settle();
    expect(bob.heard.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual(["GIVE b1", "GIVE b2"]);
  });

  it("is refused if too many of the client wait", () => {
    const { bob } = held();
    const lines = Array.from({ length: 1_025 }, (_, index) => `ON door 1000 n${index}`);
    expect(bob.say(...lines)).toEqual(["ERR n1024 too-many-requests"]);
    expect(bob.closedWith).toBe(4503);
  });
});

describe("an `OFF` while the lease of a grant is being set", () => {
  /** `bob` has been granted the lock, and the renewal to the lease that it wants by now is under way. */
  function granted() {
    const story = held();
    story.bob.say("ON door 5000 b1", "ON door 9000 b2");
    story.deployment.slow.add("renew");
    story.ada.say("OFF door a2");
    expect(story.deployment.holder("door")).toBe("bob");
    expect(story.bob.heard).toEqual([]);
    return story;
  }

  it("withdraws the requests, and gives the lock back", () => {
    const { deployment, bob } = granted();
    expect(bob.say("OFF door b3")).toEqual(["NO b1", "NO b2"]);
    expect(deployment.holder("door")).toBeUndefined();
    expect(bob.say("IS door b4")).toEqual(["NO b4"]);
  });

  it("lets the client ask anew, and answers only that", () => {
    const { deployment, bob } = granted();
    const heard = bob.say("OFF door b3", "ON door 1000 b4");
    expect(heard).toEqual(["NO b1", "NO b2", expect.stringMatching(/^GIVE b4 /)]);
    expect(deployment.leaseMs("door")).toBe(1_000);
  });

  it("and an `ON` then joins those that are about to be answered, instead of waiting behind them", () => {
    const { deployment, bob } = granted();
    bob.say("ON door 3000 b3");
    deployment.settle();
    deployment.settle();
    const fence = fenceIn(bob.say("IS door b4").at(-1));
    expect(deployment.waiters("door")).toBe(0);
    expect(deployment.leaseMs("door")).toBe(3_000);
    expect(fence).toMatch(/^\d+$/);
  });
});

describe("in a group", () => {
  it("a grant needs a majority, and a `TRY` without one hears who has the lock", () => {
    const { deployment, bob } = held({ isInGroup: true });
    deployment.hasMajority = false;
    expect(bob.say("TRY other 1000 b1")).toEqual(["LOCK b1 7"]);
  });

  it("an `ON` is repeated until a majority agrees", () => {
    const deployment = new Deployment({ isInGroup: true });
    const client = deployment.client("ada");
    deployment.hasMajority = false;
    expect(client.say("ON door 60000 n1")).toEqual([]);
    deployment.hasMajority = true;
    deployment.pass(100);
    expect(client.heard).toEqual([expect.stringMatching(/^GIVE n1 /)]);
  });

  it("a holder that cannot prolong keeps what it has, and hears so", () => {
    const { deployment, ada, fence } = held({ isInGroup: true });
    deployment.mayProlong = false;
    expect(ada.say(`REFRESH door ${fence} 90000 a2`, "TRY door 90000 a3")).toEqual([
      `LOCK a2 ${fence}`,
      `LOCK a3 ${fence}`,
    ]);
    expect(deployment.leaseMs("door")).toBeLessThanOrEqual(61_000);
  });

  it("an `ON` by the holder is repeated until a majority agrees to prolong", () => {
    const { deployment, ada, fence } = held({ isInGroup: true });
    deployment.mayProlong = false;
    expect(ada.say("ON door 90000 a2")).toEqual([]);
    deployment.pass(200);
    deployment.mayProlong = true;
    deployment.pass(200);
    expect(ada.heard).toEqual([`GIVE a2 ${fence}`]);
    expect(deployment.leaseMs("door")).toBe(90_000);
  });

  it.each([
    ["while the others are asked", 0],
    ["in the pause before they are asked again", 10],
  ])("an `OFF` of a lock that is being prolonged ends it for good, %s", (_, ms) => {
    const { deployment, ada } = held({ isInGroup: true });
    deployment.mayProlong = false;
    deployment.slow.add("prolong");
    ada.say("ON door 90000 a2");
    if (ms > 0) deployment.pass(ms);
    expect(ada.say("OFF door a3")).toEqual(["NO a2"]);
    deployment.mayProlong = true;
    for (let times = 0; times < 5; times++) deployment.pass(200);
    expect(ada.heard).toEqual([]);
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("an `OFF` of a lock that a `TRY` prolongs ends it, and the `TRY` does not take it again", () => {
    const { deployment, ada } = held({ isInGroup: true });
    deployment.slow.add("prolong");
    const heard = ada.say("TRY door 90000 a2", "OFF door a3");
    deployment.pass(200);
    expect([...heard, ...ada.heard]).toEqual(["LOCK a2 0"]);
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("an `OFF` withdraws a `TRY` that waits for the others", () => {
    const deployment = new Deployment({ isInGroup: true });
    const ada = deployment.client("ada");
    expect(ada.say("TRY door 60000 n1", "OFF door n2")).toEqual(["LOCK n1 0"]);
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("the lease that was asked for last is set before the grant is announced", () => {
    const { deployment, ada, bob } = held({ isInGroup: true });
    bob.say("ON door 5000 b1", "ON door 9000 b2");
    ada.say("OFF door a2");
    expect(bob.heard).toHaveLength(2);
    expect(deployment.leaseMs("door")).toBe(9_000);
  });

  it("and not announced without it: the others are asked until they agree", () => {
    const { deployment, ada, bob } = held({ isInGroup: true });
    bob.say("ON door 5000 b1", "ON door 9000 b2");
    deployment.mayProlong = false;
    ada.say("OFF door a2");
    deployment.pass(200);
    expect(bob.heard).toEqual([]);
    deployment.mayProlong = true;
    deployment.pass(200);
    expect(bob.heard).toHaveLength(2);
    expect(deployment.leaseMs("door")).toBe(9_000);
  });
});

describe("the end of a connection", () => {
  it("ends what its client waits for, then what it holds, and the next one is served", () => {
    const { deployment, ada, bob } = held();
    ada.say("ON window 60000 a2");
    bob.say("ON door 60000 b1");
    const cy = deployment.client("cy");
    cy.say("ON door 60000 c1", "ON window 60000 c2");
    bob.hangUp();
    ada.hangUp();
    expect(deployment.holder("door")).toBe("cy");
    expect(deployment.holder("window")).toBe("cy");
    expect(cy.heard).toHaveLength(2);
  });

  it("ends also what is just being granted", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 5000 b1", "ON door 9000 b2");
    deployment.slow.add("renew");
    ada.say("OFF door a2");
    bob.hangUp();
    deployment.settle();
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("after the last line answers what can be answered at once, and drops the rest", () => {
    const { deployment, bob, fence } = held();
    const heard = [...bob.send("IS door b1\nON door 1000 b2\nIS door b3\n"), ...bob.endInput()];
    expect(heard).toEqual([`LOCK b1 ${fence}`, `LOCK b3 ${fence}`]);
    expect(bob.closedWith).toBe(1000);
    expect(deployment.waiters("door")).toBe(0);
  });

  it("drops half a line", () => {
    const client = new Deployment().client("ada");
    client.send("ON door 1000 n1");
    expect(client.endInput()).toEqual([]);
    expect(client.closedWith).toBe(1000);
  });
});

describe("a line that is none", () => {
  it.each([
    ["BOGUS", "ERR - invalid-keyword", 4400],
    ["on door 1000 n1", "ERR - invalid-keyword", 4400],
    ["", "ERR - invalid-keyword", 4400],
    ["PROP door n1", "ERR - invalid-keyword", 4400],
    ["ON door 1000", "ERR - invalid-message", 4400],
    ["ON  door 1000 n1", "ERR - invalid-message", 4400],
    ["IS door n1 ", "ERR - invalid-message", 4400],
    ["ON door 0 n1", "ERR n1 invalid-timeout", 4400],
    ["ON door 1.5 n1", "ERR n1 invalid-timeout", 4400],
    ["TRY door 9223372036001 n1", "ERR n1 invalid-timeout", 4400],
    ["REFRESH door 1x 1000 n1", "ERR n1 invalid-fence", 4400],
    [`IS ${"x".repeat(257)} n1`, "ERR n1 invalid-lock", 4400],
    [`IS ${"x".repeat(2_000)} n1`, "ERR - line-too-long", 1009],
  ])("ends the connection: %s", (line, error, code) => {
    const { ada } = held();
    expect(ada.say("HELLO 1 a2", line, "HELLO 1 a3")).toEqual(["HELLO a2 holdfast holdfast/1.0.0", error]);
    expect(ada.closedWith).toBe(code);
  });

  it("frees what its client holds", () => {
    const { deployment, ada } = held();
    ada.say("BOGUS");
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("may come in parts, with any end of line, but not in too many minutes", () => {
    const deployment = new Deployment();
    const client = deployment.client("ada");
    expect(client.send("IS do")).toEqual([]);
    expect(client.send("or n1\r\nIS d")).toEqual(["NO n1"]);
    deployment.pass(29_999);
    expect(client.heard).toEqual([]);
    deployment.pass(1);
    expect(client.heard).toEqual(["ERR - read-timeout"]);
    expect(client.closedWith).toBe(4408);
  });

  it("is not an idle connection", () => {
    const deployment = new Deployment();
    const client = deployment.client("ada");
    deployment.pass(86_400_000);
    expect(client.closedWith).toBeUndefined();
  });
});

describe("a request that cannot be carried out ends the connection", () => {
  it.each(["ON", "TRY"])("%s while the service is being drained; questions are answered", (keyword) => {
    const client = new Deployment({ config: { draining: true } }).client("ada");
    expect(client.say("IS door n1", `${keyword} door 1000 n2`)).toEqual(["NO n1", "ERR n2 draining"]);
    expect(client.closedWith).toBe(4503);
  });

  it("`ON` where too many wait, which a `TRY` does not mind", () => {
    const { deployment, bob, fence } = held({ rules: { maxWaiters: 1 } });
    bob.say("ON door 1000 b1");
    const cy = deployment.client("cy");
    expect(cy.say("TRY door 1000 c1", "ON door 1000 c2")).toEqual([`LOCK c1 ${fence}`, "ERR c2 max-waiters"]);
  });

  it.each(["ON", "TRY"])("%s of a semaphore", (keyword) => {
    const deployment = new Deployment();
    const command = { session: "pool", request: "r", limit: 3, leaseSeconds: 60, waitMs: 0, mayWait: false };
    deployment.run("door", { do: "prune", limit: 3 });
    deployment.run("door", { do: "acquire", command });
    const client = deployment.client("ada");
    expect(client.say("IS door n1")).toEqual([expect.stringMatching(/^LOCK n1 \d+$/)]);
    expect(client.say(`${keyword} door 1000 n2`)).toEqual(["ERR n2 limit-mismatch"]);
    expect(client.closedWith).toBe(4409);
  });

  it.each([
    ["ON window 1000 n", "n"],
    ["IS window n", "n"],
    ["ON door 1000 n", "n"],
    ["OFF door n", "-"],
  ])("whatever it is, if its key cannot be reached: %s", (line, nonce) => {
    const { deployment, ada } = held();
    deployment.unreachable.add("door").add("window");
    expect(ada.say(line)).toEqual([`ERR ${nonce} internal`]);
    expect(ada.closedWith).toBe(1011);
  });
});

describe("`STATS`", () => {
  it("is one line for each number, and one for the end, before the next answer", () => {
    const { deployment, ada } = held();
    ada.onReport = (id) => deployment.plan(() => ada.report(id, { locks: 1, waiters: 0 }));
    expect(ada.say("STATS a2", "IS free a3")).toEqual([
      "STATS a2 locks 1",
      "STATS a2 waiters 0",
      "STATSEND a2",
      "NO a3",
    ]);
  });

  it("ends the connection if there is no answer", () => {
    const { deployment, ada } = held();
    ada.onReport = (id) => deployment.plan(() => ada.report(id, undefined));
    expect(ada.say("STATS a2")).toEqual(["ERR a2 internal"]);
  });
});

describe("a session that has slept", () => {
  it("knows its locks", () => {
    const { deployment, ada, fence } = held();
    ada.sleep();
    expect(ada.say(`REFRESH door ${fence} 5000 a2`)).toEqual([`GIVE a2 ${fence}`]);
    ada.sleep();
    ada.say("OFF door a3");
    expect(deployment.holder("door")).toBeUndefined();
  });

  it("knows what it waits for, each nonce, and the lease that was asked for last", () => {
    const { deployment, ada, bob } = held();
    bob.say("ON door 5000 b1", "ON door 9000 b2");
    bob.sleep();
    ada.say("OFF door a2");
    expect(bob.heard.map((line) => line.split(" ")[1])).toEqual(["b1", "b2"]);
    expect(deployment.leaseMs("door")).toBe(9_000);
  });

  it("can withdraw what it waits for", () => {
    const { deployment, bob } = held();
    bob.say("ON door 5000 b1");
    bob.sleep();
    expect(bob.say("OFF door b2")).toEqual(["NO b1"]);
    expect(deployment.waiters("door")).toBe(0);
  });

  it("knows half a line", () => {
    const client = new Deployment().client("ada");
    client.send("IS do");
    client.sleep();
    expect(client.send("or n1\n")).toEqual(["NO n1"]);
  });
});
