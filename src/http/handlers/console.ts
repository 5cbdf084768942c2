import { script, style } from "../../../dist/console/assets.js";
import { VERSION } from "../../version.ts";
import { html } from "../openapi/reference/markup.ts";
import type { AppContext } from "../request/context.ts";

const HEADERS = { "X-Content-Type-Options": "nosniff", "Cache-Control": "public, max-age=60" };
/** The page says whether a token is needed, and that may change. */
const PAGE_HEADERS = { ...HEADERS, "Cache-Control": "no-store" };

/** Only what the service itself serves is loaded, and injected markup cannot bring its own script or style. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' fill='%230f766e'/%3E%3Cpath d='M10 15v-3a6 6 0 0 1 12 0v3' fill='none' stroke='%23fff' stroke-width='3'/%3E%3Crect x='8' y='15' width='16' height='11' rx='2.5' fill='%23fff'/%3E%3C/svg%3E";

/** The console: a page whose script fetches everything else with its user's credential. */
export function getConsole(context: AppContext): Response {
  const config = context.get("config");
  return context.body(
    pageOf({
      needsToken: config.authToken !== undefined,
      hasPeers: config.relay !== undefined,
      address: `${new URL(context.req.url).origin}${context.env.mount ?? ""}`,
    }),
    200,
    {
      ...PAGE_HEADERS,
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": POLICY,
      "Referrer-Policy": "no-referrer",
    },
  );
}

export function getConsoleScript(context: AppContext): Response {
  return context.body(script, 200, { ...HEADERS, "Content-Type": "text/javascript; charset=utf-8" });
}

export function getConsoleStyle(context: AppContext): Response {
  return context.body(style, 200, { ...HEADERS, "Content-Type": "text/css; charset=utf-8" });
}

/** What the script must know before its first request is in the page. */
interface Settings {
  readonly needsToken: boolean;
  readonly hasPeers: boolean;
  readonly address: string;
}

function pageOf({ needsToken, hasPeers, address }: Settings): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="Who holds which lock, and who waits for it.">
<meta name="holdfast-version" content="${VERSION}">
<meta name="holdfast-access" content="${needsToken ? "token" : "open"}">
<meta name="holdfast-peers" content="${hasPeers ? "yes" : "no"}">
<title>holdfast</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="console.css">
<script type="module" src="console.js"></script>
</head>
<body>
<div id="console"><main class="plain"><p>Loading … If this stays, load the page again: the service may limit how often it is asked.</p></main></div>
<noscript><main class="plain"><h1>holdfast</h1><p>The console needs JavaScript. Without it: <code>curl ${address}/v1/stats</code>, or the
<a href="docs">API reference</a>.</p></main></noscript>
</body>
</html>
`.text;
}
