/** `nc host port`: standard input goes to the service, what the service says to standard output. Ends when the service hangs up. */
import { connect } from "node:net";
import { refuse } from "./usage.ts";

const [host = "", port = "", ...others] = process.argv.slice(2);
if (host.startsWith("-") || !/^[0-9]+$/.test(port) || others.length > 0) refuse("nc", process.argv.slice(2).join(" "));

const socket = connect({ host, port: Number(port), allowHalfOpen: true });
socket.on("error", ({ message }) => {
  process.stderr.write(`nc: ${message}\n`);
  process.exit(1);
});
socket.on("end", () => process.exit(0));
// The end of the input ends our half of the connection only: the answer is still to come.
process.stdin.pipe(socket);
socket.pipe(process.stdout);
