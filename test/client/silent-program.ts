/**
 * A program whose connection goes silent. It takes a lock, says so, waits until it has noticed, is `back` or `away` as told, closes its client,
 * says that too, and has nothing more to do.
 */
import { WebSocket as Ws } from "ws";
import { connect } from "../../src/client/index.ts";

const [port, kind, until] = process.argv.slice(2);
const locks = connect(`http://127.0.0.1:${port}`, kind === "ws" ? { WebSocket: Ws } : {});
await locks.acquire(`silent-${process.pid}`);
console.log("held");
const wanted = until === "back" ? "resumed" : "reconnecting";
for await (const status of locks.statuses()) if (status === wanted) break;
await locks.close();
console.log("closed");
