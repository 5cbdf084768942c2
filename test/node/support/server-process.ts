/** A server in a process of its own, on the data directory that is its argument. Says its TCP port, and runs until it is killed. */
import { serve } from "../../../src/node/index.ts";

const anyPort = { host: "127.0.0.1", port: 0 };
const [dataDir = ""] = process.argv.slice(2);
const { tcpPort } = await serve({ dataDir, tcp: anyPort, http: anyPort, log: () => {} });
process.stdout.write(`${tcpPort}\n`);
