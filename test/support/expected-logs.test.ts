import { describe, it } from "vitest";
import { log } from "../../src/log.ts";
import { allowLog, expectLog } from "./expected-logs.ts";

describe("a test fails", () => {
  it.fails("if the service logs something that it does not expect", () => {
    expectLog("it_broke", { error: "Error: lost" });
    log("error", "it_broke", { error: "Error: lost" });
    log("error", "it_broke", { error: "Error: disk" });
  });

  it.fails("if the service does not log what it expects", () => {
    expectLog("never_logged");
  });
});

describe("a test passes", () => {
  it("if the service logs what it expects, said before or after, by value or by pattern", () => {
    expectLog("it_ended", { status: 408 });
    log("warn", "it_ended", { status: 408, error: "client_canceled" });
    log("warn", "it_was_late", { error: "Error: late by 3 ms" });
    expectLog("it_was_late", { error: /^Error: late by \d+ ms$/ });
  });

  it("whether the service logs what it allows or not", () => {
    allowLog("it_may_break");
    allowLog("it_breaks");
    log("warn", "it_breaks");
  });

  it("whatever others have logged before it: a flood of theirs cuts no line of its own", () => {
    expectLog("it_breaks");
    for (let line = 0; line < 20; line++) log("warn", "it_breaks");
  });

  it("… as here", () => {
    expectLog("it_breaks");
    log("warn", "it_breaks");
  });
});
