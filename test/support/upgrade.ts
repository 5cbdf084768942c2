import { type IncomingHttpHeaders, request } from "node:http";

export interface UpgradeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/** A bare WebSocket handshake on `/v1/ws`, for what a well-behaved client library would hide. Hangs up after the answer. */
export function handshake(port: number, headers: Record<string, string> = {}): Promise<UpgradeAnswer> {
  return new Promise((resolve, reject) => {
    const upgrade = request({
      host: "127.0.0.1",
      port,
      path: "/v1/ws",
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "aG9sZGZhc3QtaXMtaGVyZQ==",
        ...headers,
      },
    });
    upgrade.once("upgrade", (response, socket) => {
      socket.destroy();
      resolve({ status: response.statusCode ?? 0, headers: response.headers });
    });
    upgrade.once("response", (response) => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, headers: response.headers });
    });
    upgrade.once("error", reject);
    upgrade.end();
  });
}
