import { afterEach, describe, expect, it, vi } from "vitest";
import { Meter } from "../../../src/cloudflare/metrics/meter.ts";
import { crash, cut, plain, resumable, resume } from "../resuming.ts";
import { replaceCommand } from "../spies.ts";
import { Client, fresh, keyStub, never, sessionsOn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const stealOf = (key: string) => `@9 steal\n${key}\n1 60\n`;

describe.each([["stays"], ["is lost with its memory"]])("a steal that is sent again when the object %s", (fate) => {
  async function stealAndReturn(key: string) {
    const { client, credential } = await resumable();
    const token = tokenOf(await client.ask(stealOf(key)));
    await cut(client);
    if (fate !== "stays") await crash(credential);
    return { token, credential };
  }

  it("gets the hold it got, as long as that stands", async () => {
    const key = fresh("key");
    await (await Client.open()).ask(`l\n${key}\n0\n`);
    const { token, credential } = await stealAndReturn(key);
    const back = await resume(credential);
    expect(await back.ask(stealOf(key))).toBe(`@9 ok ${token} 60`);
    expect(await sessionsOn(key)).toEqual([credential.session]);
    back.close();
  });

  it("takes nothing from whoever came after it", async () => {
    const key = fresh("key");
    const { token, credential } = await stealAndReturn(key);
    const innocent = await Client.open();
    expect(await innocent.ask(`r\n${key}\n${token}\n`)).toBe("ok");
    const held = tokenOf(await innocent.ask(`l\n${key}\n0\n`));
    const back = await resume(credential);
    expect(await back.ask(stealOf(key))).toBe("@9 error_lease_expired");
    expect(await innocent.ask(`r\n${key}\n${held}\n`)).toBe("ok");
    back.close();
  });

  it("takes nothing from anybody if it never got to its key", async () => {
    const key = fresh("key");
    const holder = await Client.open();
    const held = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    const { client, credential } = await resumable();
    const acquires = replaceCommand("acquire", never);
    client.send(stealOf(key));
    await until(() => acquires(key).length === 1, { timeout: 3_000, interval: 5 });
    vi.restoreAllMocks();
    await cut(client);
    if (fate !== "stays") await crash(credential);
    const back = await resume(credential);
    expect(await back.ask(stealOf(key))).toBe("@9 error_lease_expired");
    expect(await holder.ask(`r\n${key}\n${held}\n`)).toBe("ok");
    back.close();
  });
});

describe("a tag that a claim has had on the same socket", () => {
  it.each([
    ["l", "0"],
    ["sl", "0 1"],
    ["e", ""],
    ["se", "1"],
    ["w", "5"],
    ["sw", "5"],
    ["steal", "1"],
  ])("is refused to `%s`, and counted, and nothing is carried out", async (command, arg) => {
    const [key, other] = [fresh("key"), fresh("key")];
    const { client } = await resumable();
    const count = vi.spyOn(Meter.prototype, "count");
    const token = tokenOf(await client.ask(`@1 l\n${key}\n0\n`));
    const before = await keyStub(key).describe();
    expect(await client.ask(`@1 ${command}\n${key}\n${arg}\n`)).toBe("@1 error");
    expect(await client.ask(`@1 ${command}\n${other}\n${arg}\n`)).toBe("@1 error");
    expect(count.mock.calls.filter(([name]) => name === "protocol_errors_total")).toEqual([
      ["protocol_errors_total", { code: "14" }],
      ["protocol_errors_total", { code: "14" }],
    ]);
    expect(await keyStub(key).describe()).toEqual(before);
    expect(await keyStub(other).describe()).toBe(null);
    expect(await client.ask(`@1 ping\n_\n_\n`)).toBe("@1 ok");
    expect(await client.ask(`@1 r\n${key}\n${token}\n`)).toBe("@1 ok");
    client.close();
  });

  it("is free again where nobody can take the session up", async () => {
    const key = fresh("key");
    const client = await plain();
    const token = tokenOf(await client.ask(`@1 l\n${key}\n0\n`));
    expect(await client.ask(`@1 l\n${key}\n0\n`)).toBe("@1 timeout");
    expect(await client.ask(`@1 r\n${key}\n${token}\n`)).toBe("@1 ok");
    expect(tokenOf(await client.ask(`@1 l\n${key}\n0\n`)) > token).toBe(true);
    client.close();
  });

  it("is answered with the same hold on another socket, once", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    const granted = await client.ask(`@1 l\n${key}\n0\n`);
    await cut(client);
    const back = await resume(credential);
    expect(await back.ask(`@1 l\n${key}\n0\n`)).toBe(granted);
    expect(await back.ask(`@1 l\n${key}\n0\n`)).toBe("@1 error");
    back.close();
  });
});
