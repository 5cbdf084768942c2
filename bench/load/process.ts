/** The clients of a benchmark, in a process of their own: forked by `load.ts`, does one work after the other. */
import { performance } from "node:perf_hooks";
import type { Channel } from "./channel.ts";
import { openTcp, openWebSocket } from "./client.ts";
import { cycle } from "./cycles.ts";
import { inParallel } from "./in-parallel.ts";
import { join, watchReturn } from "./members.ts";
import type { Answer, Ask } from "./work.ts";

/** Kept until the process ends. */
const channels: Channel[] = [];

async function connectMany({ transport, address, count, atOnce }: Ask<"connect">): Promise<Answer<"connect">> {
  const startedAt = performance.now();
  const open = transport === "tcp" ? openTcp : openWebSocket;
  const opened = await inParallel(count, atOnce, async () => {
    const channel = await open(address);
    const reply = await channel.asked("ping\n_\n_\n");
    if (!reply.startsWith("ok")) throw new Error(`a ping was answered ${JSON.stringify(reply)}`);
    return channel;
  });
  channels.push(...opened);
  return { seconds: (performance.now() - startedAt) / 1000 };
}

async function hold({ address, keys, connections, leaseSeconds }: Ask<"hold">): Promise<void> {
  const each = Math.ceil(keys / connections);
  await inParallel(connections, connections, async (index) => {
    const channel = await openTcp(address);
    channels.push(channel);
    for (let key = index * each; key < Math.min(keys, (index + 1) * each); key++) {
      const reply = await channel.asked(`l\nheld-${String(key).padStart(7, "0")}\n0 ${leaseSeconds}\n`);
      if (!reply.startsWith("ok ")) throw new Error(`an acquire was answered ${JSON.stringify(reply)}`);
    }
  });
}

async function run(ask: Ask): Promise<Answer> {
  switch (ask.work) {
    case "cycles":
      return cycle(ask);
    case "connect":
      return connectMany(ask);
    case "hold":
      await hold(ask);
      return undefined;
    case "join":
      return join(ask);
    case "return":
      return watchReturn(ask);
  }
}

process.on("message", async (ask: Ask) => {
  process.send?.({ answer: await run(ask) });
});
// The parent has ended, or wants no more.
process.once("disconnect", () => process.exit());
