/** Keeps track of a story's connections, so that none outlives it. */
import { openClient, type Ports, TcpClient, type Transport, type WireClient, WsClient } from "./wire-client.ts";

export class Clients implements Disposable {
  private readonly ports: Ports;
  private readonly opened: WireClient[] = [];

  constructor(ports: Ports) {
    this.ports = ports;
  }

  async open(transport: Transport): Promise<WireClient> {
    return this.keep(await openClient(transport, this.ports));
  }
  async tcp(options?: Parameters<typeof TcpClient.open>[1]): Promise<TcpClient> {
    return this.keep(await TcpClient.open(this.ports.tcpPort, options));
  }
  async ws(options?: Parameters<typeof WsClient.open>[1]): Promise<WsClient> {
    return this.keep(await WsClient.open(this.ports.httpPort, options));
  }
  /** `count` connections, TCP and WebSocket in turn. */
  async mixed(count: number): Promise<WireClient[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.open(index % 2 === 0 ? "tcp" : "ws")));
  }

  [Symbol.dispose](): void {
    for (const client of this.opened) client.destroy();
  }

  private keep<Client extends WireClient>(client: Client): Client {
    this.opened.push(client);
    return client;
  }
}
