import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "vitest";
import { HOSTS } from "../support/hosts.ts";
import { type Speaker, speakTo } from "./speaker.ts";

const text = readFileSync(new URL("../../docs/godistlock.md", import.meta.url), "utf8");
const [, session = ""] = /```godistlock\n(.*?)```/s.exec(text) ?? [];

/** Fences are long numbers: those printed stand for those given, each for the same one throughout. */
it.each(HOSTS)("the session in the document works as printed, on $name", async (host) => {
  await using server = await host.start();
  const speakers = new Map<string, Speaker>();
  const fences = new Map<string, string>();
  for (const line of session.trim().split("\n")) {
    const [, who = "", direction, said = ""] = /^([A-Z])([<>]) (.*)$/.exec(line) ?? [];
    const speaker = speakers.get(who) ?? (await speakTo({ port: server.godistlockPort }));
    speakers.set(who, speaker);
    const known = (printed: string) => printed.replace(/[0-9]{19}/g, (fence) => fences.get(fence) ?? fence);
    if (direction === ">") speaker.send(new TextEncoder().encode(`${known(said)}\n`));
    else {
      const arrival = await speaker.inbox.take(5_000);
      assert.ok(arrival?.kind === "line");
      const [printed] = /[0-9]{19}/.exec(said) ?? [];
      const [given] = /[0-9]{19}/.exec(arrival.line) ?? [];
      if (printed && given && !fences.has(printed)) fences.set(printed, given);
      assert.equal(arrival.line, known(said));
    }
  }
  for (const speaker of speakers.values()) speaker.close();
});
