import type { Arguments } from "../args/parse.ts";
import { CommandError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { draining } from "../service/failures.ts";
import type { HttpService } from "../service/http.ts";
import { sessionIn, withService } from "./context.ts";

/** No key begins with this, so checking a token looks up and wakes nothing. */
const NO_KEY = encodeURIComponent("\u0001holdfast-ping");

/** `holdfast ping`: checks that the server is there, ready, and accepts the token. */
export async function main(args: Arguments): Promise<number> {
  const session = sessionIn(args);
  return withService(args, async (service) => {
    const since = performance.now();
    const { status, word } = await service.state("/ready");
    const milliseconds = Number((performance.now() - since).toFixed(1));
    if (word === "draining") throw draining(service.target);
    if (status !== 200)
      throw new CommandError("unavailable", `the server at ${service.target.url} is not ready (${word})`);
    await checkToken(service);
    if (session !== undefined) await service.ask(`/v1/sessions/${session}/ping`, { method: "POST" });
    new Printer(args.output).result({ url: service.target.url, ms: milliseconds }, [
      `ok ${service.target.url} ${milliseconds} ms`,
    ]);
  });
}

async function checkToken(service: HttpService): Promise<void> {
  try {
    await service.ask(`/v1/stats?limit=1&prefix=${NO_KEY}`);
  } catch (error) {
    // The ticket is valid, but does not allow this.
    if (!(error instanceof CommandError) || error.code !== "forbidden") throw error;
  }
}
