import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { chaptersOf } from "../support/examples.ts";
import { expectAsPrinted } from "./printed.ts";

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
const GUIDE = read("docs/http-api.md");
const FILES = read("docs/files-over-http.md");

describe("every example in the documents does what is printed below it", () => {
  for (const [index, chapter] of chaptersOf(GUIDE).entries()) {
    it(`in the guide to the HTTP API, part ${index + 1}: holdfast serve ${chapter.flags.join(" ")}`, async () => {
      await expectAsPrinted(chapter);
    });
  }

  for (const [index, chapter] of chaptersOf(FILES).entries()) {
    it(`in the guide to files over HTTP, part ${index + 1}, and leaves nothing held`, async () => {
      const { httpPort } = await expectAsPrinted(chapter);
      const [, token = ""] = chapter.flags;
      const stats = await fetch(`http://127.0.0.1:${httpPort}/v1/stats`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      expect(await stats.json()).toMatchObject({ locks: [], semaphores: [] });
    });
  }
});
