/** The PATH under which the whole suite is run before a change is taken in. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const onBareMachine = (script: string) =>
  execFileSync("sh", [".ci/run", "sh", "-c", script], {
    cwd: ROOT,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });

test("has node, npm, a shell and coreutils, and no program that only some machines have", () => {
  const names = "node npm npx cat cut sort mktemp curl nc grep ps bash jq openssl python3";
  const found = onBareMachine(
    `for name in ${names}; do [ -e "$PATH/$name" ] && echo $name; done; node -p 1+1; npm --version`,
  );
  expect(found).toMatch(/^node\nnpm\nnpx\ncat\ncut\nsort\nmktemp\n2\n[0-9.]+\n$/);
});

test("a command that is not there fails the run, and so does one that fails", () => {
  expect(() => onBareMachine("curl --version")).toThrow(expect.objectContaining({ status: 127 }));
  expect(() => onBareMachine("exit 3")).toThrow(expect.objectContaining({ status: 3 }));
});
