/** `npm start`, `npm run dev` and `npm run cluster`, as the shells of all systems run them. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const fileOf = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
const { scripts } = JSON.parse(fileOf("package.json")) as { readonly scripts: Readonly<Record<string, string>> };

test.each(["start", "dev", "cluster"])(
  "npm run %s puts the program in the place of its shell, which gets npm's signals",
  (name) => {
    expect(scripts[name]).toMatch(/(?:^|&& )exec node \S+\.(?:ts|js)(?: \w+)?$/);
  },
);

test.each(["start", "dev", "cluster"])("npm run %s needs no shell but cmd.exe", (name) => {
  const commands = scripts[name]?.split(" && ") ?? [];
  for (const command of commands) expect(command).toMatch(/^(?:exec )?node [\w./-]+(?: [\w./-]+)*$/);
  // cmd.exe takes `exec` from the folder that npm runs scripts in. `%*` is the command with its arguments.
  expect(fileOf("exec.cmd").trimEnd().split("\n").at(-1)).toBe("@%*");
});
