/** A WebSocket client that says the protocol line by line, and may take up a session. */
import { once } from "node:events";
import { WebSocket } from "ws";
import { poll } from "./poll.ts";

export interface Speaker {
  readonly socket: WebSocket;
  readonly heard: string[];
  /** Resolves with the code that the socket is closed with. */
  readonly closed: Promise<number>;
  say(command: string, key?: string, arg?: string): void;
  /** The first line from now on, or heard before, that begins like this; without that beginning. */
  hears(beginning: string): Promise<string>;
}

export async function speakTo(port: number, credential?: string): Promise<Speaker> {
  const protocols = ["dflockd.v2", ...(credential ? [`holdfast.resume.${credential}`] : [])];
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`, protocols);
  const heard: string[] = [];
  socket.on("message", (line: Buffer) => heard.push(line.toString().trimEnd()));
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  await once(socket, "open");
  return {
    socket,
    heard,
    closed,
    say: (command, key = "_", arg = "_") => socket.send(`${command}\n${key}\n${arg}\n`),
    async hears(beginning) {
      const line = await poll(`"${beginning}"`, 8_000, async () => heard.find((each) => each.startsWith(beginning)));
      return line.slice(beginning.length).trim();
    },
  };
}

/** Asks that the session outlive its socket; what it is taken up by. */
export async function askToResume(speaker: Speaker): Promise<{ credential: string; graceSeconds: number }> {
  speaker.say("@s session", "_", "resume");
  const [credential = "", grace] = (await speaker.hears("@s ok")).split(" ");
  return { credential, graceSeconds: Number(grace) };
}
