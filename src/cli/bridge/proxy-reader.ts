import type { Socket } from "node:net";
import { type ProxyHeader, parseProxyHeader } from "./proxy-protocol.ts";

const HEADER_LIMIT_MS = 5_000;

/** Takes the PROXY header off a fresh connection and leaves every byte after it unread. */
export function readProxyHeader(client: Socket): Promise<Exclude<ProxyHeader, { kind: "incomplete" }>> {
  return new Promise((resolve) => {
    let seen: Buffer = Buffer.alloc(0);
    const settle = (header: Exclude<ProxyHeader, { kind: "incomplete" }>) => {
      clearTimeout(timer);
      client.off("readable", read).off("end", giveUp).off("close", giveUp);
      if (header.kind === "header" && seen.length > header.length) client.unshift(seen.subarray(header.length));
      resolve(header);
    };
    const giveUp = () => settle({ kind: "invalid" });
    const read = () => {
      for (let chunk = client.read(); chunk !== null; chunk = client.read()) seen = Buffer.concat([seen, chunk]);
      const header = parseProxyHeader(seen);
      if (header.kind !== "incomplete") settle(header);
    };
    const timer = setTimeout(giveUp, HEADER_LIMIT_MS);
    client.on("readable", read).on("end", giveUp).on("close", giveUp);
  });
}
