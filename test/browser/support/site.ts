/** A web site that uses the service: its pages come from an origin of their own, as in life. */
import { readFile } from "node:fs/promises";
import { startWeb } from "./web.ts";

const CLIENT = new URL("../../../packages/client/dist/client.js", import.meta.url);
const PAGES = new URL("../pages/", import.meta.url);

const PAGE = `<!doctype html>
<title>A page</title>
<link rel="icon" href="data:,">
<script type="module">
  import * as holdfast from "/client.js";
  globalThis.holdfast = holdfast;
</script>
`;

export interface Site extends AsyncDisposable {
  /** A page that has the client as `holdfast`. */
  readonly url: string;
  /** A page of the same site that has nothing. */
  readonly elsewhere: string;
  /** What pages have posted to `/notes`, in the order in which it came. Stands for whatever a lock protects. */
  readonly notes: string[];
}

export async function startSite(): Promise<Site> {
  const notes: string[] = [];
  const scripts = async (path: string) => {
    if (path === "/client.js") return readFile(CLIENT);
    return /^\/[a-z-]+\.js$/.test(path) ? readFile(new URL(`.${path}`, PAGES)) : undefined;
  };
  const web = await startWeb(async (request, response) => {
    const [path = "/"] = (request.url ?? "/").split("?");
    if (path === "/notes") {
      let note = "";
      for await (const part of request) note += part;
      notes.push(note);
      response.writeHead(204).end();
      return;
    }
    const script = await scripts(path);
    const type = script ? "text/javascript" : "text/html; charset=utf-8";
    response.writeHead(200, { "content-type": type }).end(script ?? (path === "/" ? PAGE : "<title>Elsewhere</title>"));
  });
  return {
    url: `${web.origin}/`,
    elsewhere: `${web.origin}/elsewhere`,
    notes,
    [Symbol.asyncDispose]: () => web[Symbol.asyncDispose](),
  };
}
