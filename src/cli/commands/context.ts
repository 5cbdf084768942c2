import { SESSION } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { hexIn, keyIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { HttpService } from "../service/http.ts";
import { fenceOf } from "../service/keys.ts";
import { targetOf } from "../service/target.ts";

/** Runs `work` with one connection to the server, and closes it afterwards. */
export async function withService(args: Arguments, work: (service: HttpService) => Promise<unknown>): Promise<number> {
  const service = new HttpService(await targetOf(args, process.env));
  try {
    await work(service);
    return 0;
  } finally {
    await service.close();
  }
}

/** The session given with `--session`. */
export function sessionIn(args: Arguments): string | undefined {
  const text = args.text(SESSION);
  return text === undefined ? undefined : hexIn(text, SESSION.name);
}

/** A key that can be part of a URL. */
export function urlKeyIn(text: string | undefined): string {
  const key = keyIn(text ?? "", "KEY");
  if (key === "." || key === "..") throw new UsageError("the keys . and .. cannot be named here: use lock or run");
  return key;
}

/**
 * A grant for programs and for shells. The printed lines are safe for `eval`: values contain only letters and digits.
 */
export interface GrantReply {
  readonly token: string;
  readonly lease_ttl_s: number;
}

export function grantDocument(key: string, { token, lease_ttl_s }: GrantReply) {
  return { key, token, fence: fenceOf(token), lease_s: lease_ttl_s };
}

export function grantLines({ token, lease_ttl_s }: GrantReply): string[] {
  return [`token=${token}`, `fence=${fenceOf(token)}`, `lease=${lease_ttl_s}`];
}
