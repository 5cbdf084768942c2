import type { Arguments } from "../args/parse.ts";
import { CommandError } from "../output/errors.ts";
import { draining } from "../service/failures.ts";
import type { HttpService } from "../service/http.ts";
import { printerOf, sessionIn, withService } from "./context.ts";

/** No key begins with this: nothing has to be looked up or woken to check a token. */
const NO_KEY = encodeURIComponent("\u0001holdfast-ping");

/** `holdfast ping`: the server is there, takes new work, and takes the token. */
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
    printerOf(args).result({ url: service.target.url, ms: milliseconds }, [
      `ok ${service.target.url} ${milliseconds} ms`,
    ]);
  });
}

async function checkToken(service: HttpService): Promise<void> {
  try {
    await service.ask(`/v1/stats?limit=1&prefix=${NO_KEY}`);
  } catch (error) {
    // A ticket that is good, but not for this.
    if (!(error instanceof CommandError) || error.code !== "forbidden") throw error;
  }
}
