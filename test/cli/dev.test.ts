import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { devArguments } from "../../scripts/dev-arguments.ts";
import { temporaryDir } from "./support.ts";

const LIMITED = ["--var", "HTTP_ALLOWED_HOSTS:localhost"];

function argumentsWith(files: Record<string, string>, ...given: string[]): string[] {
  const folder = temporaryDir();
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  return devArguments(given, folder);
}

describe("npm run dev", () => {
  test("without a token answers to loopback names only", () => {
    expect(argumentsWith({}, "--port", "7000")).toEqual(["dev", "--port", "7000", ...LIMITED]);
    expect(argumentsWith({ ".dev.vars": "# AUTH_TOKEN=x\nAUTH_TOKEN=\n", "wrangler.toml": "[vars]\n" })).toEqual([
      "dev",
      ...LIMITED,
    ]);
    expect(argumentsWith({ ".dev.vars": "ADMIN_TOKEN=x\nMY_AUTH_TOKEN=x\n" })).toEqual(["dev", ...LIMITED]);
  });

  test.each(["AUTH_TOKEN", "HTTP_ALLOWED_HOSTS"])("leaves that to whoever sets %s, wherever", (name) => {
    expect(argumentsWith({}, "--var", `${name}:x`)).toEqual(["dev", "--var", `${name}:x`]);
    expect(argumentsWith({}, `--var=${name}:x`)).toEqual(["dev", `--var=${name}:x`]);
    for (const [file, text] of [
      [".dev.vars", `DEBUG=1\n${name}="x"\n`],
      [".env", `export ${name}=x\n`],
      ["wrangler.toml", `[vars]\n${name} = "x"\n`],
    ] as const)
      expect(argumentsWith({ [file]: text })).toEqual(["dev"]);
  });
});
