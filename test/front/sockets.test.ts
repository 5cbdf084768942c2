import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { isAlive } from "../../src/front/workerd/socket-paths.ts";

function paths() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string) => join(folder, name);
  return { workerd: at("workerd.sock"), alive: at("serve.sock"), aliveElsewhere: at("elsewhere.sock"), forget() {} };
}

test("a directory is free when its socket is missing, or left over", async () => {
  const free = paths();
  expect(await isAlive(free)).toBe(false);
  writeFileSync(free.alive, "");
  expect(await isAlive(free)).toBe(false);
});

test("a directory is in use when somebody listens on its socket, wherever that is", async () => {
  for (const name of ["alive", "aliveElsewhere"] as const) {
    const used = paths();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(used[name], resolve));
    onTestFinished(() => void server.close());
    expect(await isAlive(used)).toBe(true);
  }
});

test("a directory whose socket cannot be looked at is not taken for free", async () => {
  const unknown = paths();
  symlinkSync(unknown.alive, unknown.alive);
  await expect(isAlive(unknown)).rejects.toThrow(
    `cannot tell whether another server uses the data directory: ${unknown.alive}: too many symbolic links encountered`,
  );
});
