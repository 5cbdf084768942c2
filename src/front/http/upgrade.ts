import { type ClientRequest, type IncomingMessage, request, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import { watchHangUp } from "../carriage/hang-up.ts";
import { splice } from "../carriage/splice.ts";
import { TCP_PROTOCOLS } from "../carriage/tcp-protocols.ts";
import { type AdmissionQueue, AdmissionTimeoutError } from "../limits/admission.ts";
import { reach } from "../workerd/reach.ts";
import { forwardedHeaders, keptHeaders } from "./headers.ts";
import type { Passage } from "./proxy.ts";
import { sayGoodbye, UNAVAILABLE } from "./refusals.ts";

/** How long workerd may take to answer: a connection that it never answers must not keep others out. */
const ANSWERED_WITHIN_MS = 10_000;
/** The subprotocol with which a client resumes its session. */
const RESUME = /(?:^|,)\s*holdfast\.resume\.[0-9a-f]{32}\.[0-9a-f]{32}\s*(?:,|$)/;

/** The routes that speak WebSocket. */
const WEBSOCKET_PATHS: ReadonlySet<string | undefined> = new Set(Object.values(TCP_PROTOCOLS).map(({ path }) => path));

/** Whether a request asks for a WebSocket on the path that has one. Elsewhere `Upgrade` has no effect. */
export function asksForWebSocket({ method, url = "", headers }: IncomingMessage): boolean {
  if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket") return false;
  return WEBSOCKET_PATHS.has(URL.parse(url.startsWith("/") ? `http://holdfast${url}` : url)?.pathname);
}

/** Whether a body follows the head: workerd skips the body of an upgrade and parses what follows as frames. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || !/^0*$/.test(headers["content-length"] ?? "");
}

type Outcome =
  | { readonly type: "opened"; readonly answer: IncomingMessage; readonly socket: Socket; readonly first: Buffer }
  | { readonly type: "refused"; readonly answer: IncomingMessage }
  | { readonly type: "unavailable" };

export interface Entrance {
  /** The address the client is counted under. */
  readonly address: string;
  readonly admission: AdmissionQueue;
  readonly passage: Passage;
}

/** Asks workerd for a WebSocket when it is the client's turn. Resolves when it is open or has failed. */
export async function upgrade(
  incoming: IncomingMessage,
  client: Duplex,
  head: Buffer,
  { address, admission, passage }: Entrance,
): Promise<void> {
  client.on("error", () => client.destroy());
  const { signal, stop } = watchHangUp(client, { isEndFinal: true });
  const isResuming = RESUME.test(incoming.headers["sec-websocket-protocol"] ?? "");
  try {
    const release = await admission.enter({ address, isResuming, signal });
    const outcome = await ask(incoming, passage, signal).finally(release);
    if (isResuming) note(outcome, address, admission);
    signal.throwIfAborted();
    stop();
    if (outcome.type === "opened") open(outcome, client, head, passage.writeTimeoutMs);
    else if (outcome.type === "refused") refuse(outcome.answer, client);
    else sayGoodbye(client, UNAVAILABLE);
  } catch (error) {
    stop();
    if (error instanceof AdmissionTimeoutError) sayGoodbye(client, UNAVAILABLE);
    else client.destroy();
  }
}

/** Tells the queue the outcome of an attempt to resume. */
function note(outcome: Outcome, address: string, admission: AdmissionQueue): void {
  if (outcome.type === "unavailable") return;
  const { statusCode = 0, headers } = outcome.answer;
  if (outcome.type === "refused" && statusCode >= 500) return;
  const isBack = outcome.type === "opened" && headers[REFUSAL_HEADER.toLowerCase()] === undefined;
  if (isBack) admission.resumed(address);
  else admission.resumeRefused(address);
}

async function ask(incoming: IncomingMessage, passage: Passage, signal: AbortSignal): Promise<Outcome> {
  const connection = await reach(passage.upstream);
  if (connection && !signal.aborted) return pass(incoming, connection, passage, signal);
  connection?.destroy();
  return { type: "unavailable" };
}

function pass(
  incoming: IncomingMessage,
  connection: Socket,
  { hearsBridges }: Passage,
  signal: AbortSignal,
): Promise<Outcome> {
  return new Promise((resolve) => {
    const outgoing = request({
      createConnection: () => connection,
      setHost: false,
      method: incoming.method,
      path: incoming.url,
      headers: forwardedHeaders(incoming, { isUpgrade: true, hearsBridges }),
    });
    const settle = (outcome: Outcome) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
      resolve(outcome);
    };
    const giveUp = () => {
      hangUp(outgoing);
      settle({ type: "unavailable" });
    };
    const timer = setTimeout(giveUp, ANSWERED_WITHIN_MS);
    signal.addEventListener("abort", giveUp);
    outgoing.on("upgrade", (answer, socket, first) =>
      settle({ type: "opened", answer, socket: socket as Socket, first }),
    );
    outgoing.on("response", (answer) => settle({ type: "refused", answer }));
    outgoing.on("error", () => settle({ type: "unavailable" }));
    outgoing.end();
  });
}

/** Closes the connection to workerd so that it notices: on TCP only a reset does that (workerd 2026-11). */
function hangUp(outgoing: ClientRequest): void {
  if (outgoing.destroyed) return;
  const socket = outgoing.socket as Socket | null;
  if (socket?.remoteFamily !== undefined) socket.resetAndDestroy();
  outgoing.destroy();
}

function open(
  { answer, socket, first }: Outcome & { readonly type: "opened" },
  client: Duplex,
  head: Buffer,
  writeTimeoutMs: number,
): void {
  client.write(headOf(answer, ["Connection", "Upgrade", "Upgrade", "websocket", ...keptHeaders(answer)]));
  if (first.length > 0) socket.unshift(first);
  if (head.length > 0) client.unshift(head);
  splice(client, socket, writeTimeoutMs);
}

/** Passes on a refused upgrade: such replies are one line of JSON. */
function refuse(answer: IncomingMessage, client: Duplex): void {
  const pieces: Buffer[] = [];
  answer.on("data", (bytes: Buffer) => pieces.push(bytes));
  answer.on("error", () => client.destroy());
  answer.on("end", () => {
    const body = Buffer.concat(pieces);
    const headers = keptHeaders(answer).filter((_, index, all) => !isFraming(all[index - (index % 2)] ?? ""));
    const head = headOf(answer, [...headers, "Content-Length", String(body.length), "Connection", "close"]);
    sayGoodbye(client, Buffer.concat([Buffer.from(head, "latin1"), body]));
  });
}

const isFraming = (name: string) => /^(content-length|transfer-encoding)$/i.test(name);

function headOf({ statusCode = 502, statusMessage }: IncomingMessage, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${statusCode} ${statusMessage || STATUS_CODES[statusCode]}\r\n`;
  for (let index = 0; index < headers.length; index += 2) text += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${text}\r\n`;
}
