import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Where `wrangler dev` finds variables, besides its arguments. */
const FILES = ["wrangler.toml", ".dev.vars", ".env", ".env.local"];

/**
 * The arguments of `wrangler dev`. As under `holdfast serve`, a service without a token answers to loopback names and IP
 * addresses only, unless the caller lists others.
 */
export function devArguments(given: readonly string[], folder: string): string[] {
  const texts = FILES.map((file) => textOf(join(folder, file)));
  const isSet = (name: string) =>
    given.some((argument) => new RegExp(`^(?:--var=)?${name}:.`).test(argument)) ||
    texts.some((text) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=\\s*["']?[^\\s"']`, "m").test(text));
  const isLimited = !isSet("AUTH_TOKEN") && !isSet("HTTP_ALLOWED_HOSTS");
  return ["dev", ...given, ...(isLimited ? ["--var", "HTTP_ALLOWED_HOSTS:localhost"] : [])];
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
