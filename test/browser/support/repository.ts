/** The repository as any server of files shows it, such as the one that the examples name. */
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { startWeb, type Web } from "./web.ts";

const ROOT = new URL("../../../", import.meta.url);
const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript" };

export function serveRepository(): Promise<Web> {
  return startWeb(async (request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://repository");
    const path = pathname.endsWith("/") ? `${pathname}index.html` : pathname;
    const file = await readFile(new URL(`.${path}`, ROOT)).catch(() => undefined);
    response.writeHead(file ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
    response.end(file);
  });
}
