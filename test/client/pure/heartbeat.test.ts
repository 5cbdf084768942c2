import { expect, it } from "vitest";
import { Heartbeat } from "../../../src/client/connection/heartbeat.ts";
import { FakeClock } from "./fake-clock.ts";

function patient() {
  const [clock, events] = [new FakeClock(), [] as string[]];
  const heartbeat = new Heartbeat(clock, 1_000, {
    ping: () => events.push("beat"),
    proved: ({ steady }) => events.push(`proved ${clock.steady() - steady}`),
    drop: () => events.push("drop"),
  });
  return { clock, events, heartbeat };
}

it("a beat is due at every interval, and proves that somebody was there when it was sent", async () => {
  const { clock, events, heartbeat } = patient();
  await clock.pass(1_300);
  heartbeat.answered();
  await clock.pass(1_000);
  heartbeat.answered();
  expect(events).toEqual(["beat", "proved 300", "beat", "proved 300"]);
});

it("nobody is there when a beat is not answered before the next", async () => {
  const { clock, events } = patient();
  await clock.pass(2_040);
  expect(events).toEqual(["beat"]);
  await clock.pass(20);
  expect(events).toEqual(["beat", "drop"]);
  expect(clock.timers).toBe(0);
});

it("an answer that came while the program stood still counts, though the timers come first", async () => {
  const { clock, events, heartbeat } = patient();
  await clock.pass(1_000);
  await clock.freeze(60_000);
  heartbeat.answered();
  await clock.pass(500);
  expect(events).toEqual(["beat", "proved 60000", "beat"]);
});

it("after standing still an answer is wanted soon: much may be over", async () => {
  const { clock, events } = patient();
  await clock.freeze(60_000);
  expect(events).toEqual(["beat"]);
  await clock.pass(540);
  expect(events).toEqual(["beat"]);
  await clock.pass(20);
  expect(events).toEqual(["beat", "drop"]);
});

it("whoever asks again and again puts nothing off", async () => {
  const { clock, events, heartbeat } = patient();
  for (let round = 0; round < 4; round += 1) {
    heartbeat.probe(500);
    await clock.pass(150);
  }
  expect(events).toEqual(["beat", "drop"]);
});

it("who wants to know sooner sends no second beat beside one that is under way", async () => {
  const { clock, events, heartbeat } = patient();
  await clock.pass(1_100);
  heartbeat.probe(200);
  await clock.pass(240);
  expect(events).toEqual(["beat"]);
  await clock.pass(20);
  expect(events).toEqual(["beat", "drop"]);
});
