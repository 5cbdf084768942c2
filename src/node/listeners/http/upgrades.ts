import { STATUS_CODES } from "node:http";
import { TLSSocket } from "node:tls";
import { sendAndClose } from "../lingering-close.ts";
import type { UpgradeRequest } from "../websocket.ts";
import { badHost, prepareHead } from "./heads.ts";
import { refusal } from "./refusals.ts";
import type { HttpOptions } from "./server.ts";

/** Asks the app for a WebSocket. Resolves when it is open or refused. */
export async function openWebSocket(
  upgrade: UpgradeRequest,
  { fetch, sockets, log }: Pick<HttpOptions, "fetch" | "sockets" | "log">,
): Promise<void> {
  const { socket, address } = upgrade;
  socket.on("error", () => socket.destroy());
  socket.setTimeout(0);
  const request = requestOf(upgrade);
  if (!request) {
    sendAndClose(socket, badHost());
    return;
  }
  sockets.expect(request, upgrade);
  try {
    const response = await fetch(request, address);
    if (!sockets.hasSwitched(request)) sendAndClose(socket, await wholeReply(response));
  } catch (error) {
    log(`an upgrade was not answered: ${String(error)}`);
    sendAndClose(socket, refusal(500, "internal"));
  }
}

/** Undefined if its host is none. */
function requestOf({ incoming, socket }: UpgradeRequest): Request | undefined {
  prepareHead(incoming);
  const { url = "/", rawHeaders } = incoming;
  const scheme = socket instanceof TLSSocket ? "https" : "http";
  try {
    const headers = new Headers();
    for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
    return new Request(url.startsWith("/") ? `${scheme}://${incoming.headers.host}${url}` : url, { headers });
  } catch {
    return undefined;
  }
}

/** A refused upgrade: such replies are one line of JSON. */
async function wholeReply(response: Response): Promise<Buffer> {
  const body = Buffer.from(await response.arrayBuffer());
  let head = `HTTP/1.1 ${response.status} ${STATUS_CODES[response.status] ?? ""}\r\n`;
  for (const [name, value] of response.headers) if (name !== "content-length") head += `${name}: ${value}\r\n`;
  head += `content-length: ${body.length}\r\nconnection: close\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}
