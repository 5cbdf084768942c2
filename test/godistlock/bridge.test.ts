import { expect, it } from "vitest";
import { startTestBridge } from "../cli/bridge-support.ts";
import { HOSTS } from "../support/hosts.ts";
import { speakTo } from "./speaker.ts";

it.each(HOSTS)(
  "a bridge carries godistlock clients to $name, and their locks end with their connections",
  async (host) => {
    await using server = await host.start();
    const to = new URL(`ws://127.0.0.1:${server.httpPort}/v1/godistlock`);
    const bridge = await startTestBridge(to, { protocol: "godistlock" });
    const [carried, direct] = [await speakTo({ port: bridge.port }), await speakTo({ port: server.godistlockPort })];
    carried.send(new TextEncoder().encode("ON bridged 60000 a\n"));
    expect(await carried.inbox.take(5_000)).toMatchObject({ line: expect.stringMatching(/^GIVE a [0-9]+$/) });
    direct.send(new TextEncoder().encode("ON bridged 60000 b\n"));
    carried.close();
    expect(await direct.inbox.take(5_000)).toMatchObject({ line: expect.stringMatching(/^GIVE b [0-9]+$/) });
    direct.close();
    await bridge.stop();
  },
);
