/** What keeps the server from its data is named in one line: the path, and what is wrong with it. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { freePort, outcome, startServe, TcpClient, temporaryDir } from "./support.ts";

/** The outcome of a server that cannot start. Its ports are free: they are not what is wrong. */
async function refusal(dataDir: string) {
  const ports = ["--port", String(await freePort()), "--http-port", String(await freePort())];
  return outcome(["serve", ...ports, "--godistlock-port", "0", "--data-dir", dataDir]);
}

const refused = (line: string) => ({ code: 1, signal: null, stdout: "", stderr: `holdfast: ${line}\n` });

function foreignDatabase(path: string): void {
  using database = new DatabaseSync(path);
  database.exec("CREATE TABLE customers (name TEXT)");
}

function newerDatabase(path: string): void {
  using database = new DatabaseSync(path);
  database.exec(`CREATE TABLE keys (id INTEGER); PRAGMA application_id = ${0x484f4c44}; PRAGMA user_version = 99`);
}

describe("a data directory", () => {
  test("that is a file is refused with its name", async () => {
    const file = join(temporaryDir(), "file");
    writeFileSync(file, "");
    expect(await refusal(file)).toEqual(refused(`cannot use data directory ${file}: it is not a directory`));
    const below = join(file, "below");
    expect(await refusal(below)).toEqual(refused(`cannot use data directory ${below}: not a directory`));
  });

  test("that cannot be made is refused, not tried for ever", async () => {
    expect(await refusal("/proc/holdfast")).toMatchObject({ code: 1, stdout: "" });
  });

  test("that another server uses is refused, and the first goes on", async () => {
    const first = await startServe();
    expect(await refusal(first.dataDir)).toEqual(
      refused(`data directory ${first.dataDir} is in use by another server`),
    );
    // Reached by another name, it is still the same directory.
    const alias = join(temporaryDir(), "alias");
    symlinkSync(first.dataDir, alias);
    expect(await refusal(alias)).toEqual(refused(`data directory ${alias} is in use by another server`));
    const client = await TcpClient.open(first.port);
    client.socket.write("l\nkey\n0\n");
    await expect.poll(() => client.text).toMatch(/^ok \w{32} 33\n$/);
    // After `kill -9` it is free at once.
    first.child.kill("SIGKILL");
    await first.exited;
    await startServe({ dataDir: first.dataDir });
  });

  test("that a frozen server has is refused, too", async () => {
    const first = await startServe();
    first.child.kill("SIGSTOP");
    try {
      expect(await refusal(first.dataDir)).toEqual(
        refused(`data directory ${first.dataDir} is in use by another server`),
      );
    } finally {
      first.child.kill("SIGCONT");
    }
  });

  test.each(["objects", "workerd.capnp"])(
    "of an earlier layout, with %s, is refused: it says what to do",
    async (name) => {
      const dataDir = temporaryDir();
      mkdirSync(join(dataDir, name));
      expect(await refusal(dataDir)).toEqual(
        refused(
          `data directory ${dataDir} holds data of an earlier layout, which this version does not read: ` +
            "delete it, or choose another one with --data-dir",
        ),
      );
    },
  );
});

describe("a database", () => {
  test.each<[string, string, (path: string) => void]>([
    ["is a directory", "cannot open $: it is not a file", (path) => mkdirSync(path)],
    ["is no database", "$ is not a database", (path) => writeFileSync(path, Buffer.alloc(8_192, "A"))],
    ["belongs to another program", "$ is not a database of holdfast", foreignDatabase],
    ["has a layout of the future", "$ has layout 99, and this version reads only layout 2", newerDatabase],
    ["is a link to itself", "cannot open $: too many symbolic links encountered", (path) => symlinkSync(path, path)],
  ])("that %s is refused with its name", async (_, line, putInTheWay) => {
    const dataDir = temporaryDir();
    const path = join(dataDir, "holdfast.db");
    putInTheWay(path);
    expect(await refusal(dataDir)).toEqual(refused(line.replace("$", path)));
  });

  test("that is damaged inside is refused in one line, and its rows are left as they are", async () => {
    const first = await startServe();
    const client = await TcpClient.open(first.port);
    client.socket.write("l\nkey\n0 300\n");
    await expect.poll(() => client.text).toMatch(/^ok /);
    first.child.kill("SIGTERM");
    await first.exited;
    const path = join(first.dataDir, "holdfast.db");
    const keysAfter = (sql: string) => {
      using database = new DatabaseSync(path);
      database.exec(sql);
      return database.prepare("SELECT * FROM keys").all();
    };
    const before = keysAfter("UPDATE keys SET head = substr(head, 1, 10)");
    const { code, stdout, stderr } = await refusal(first.dataDir);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
    expect(stderr).toContain(`the data in ${first.dataDir} is damaged: `);
    expect(keysAfter("")).toEqual(before);
  });

  test("that cannot be opened is refused with its name", async () => {
    const dataDir = temporaryDir();
    const path = join(dataDir, "holdfast.db");
    mkdirSync(path);
    expect(await refusal(dataDir)).toEqual(refused(`cannot open ${path}: it is not a file`));
  });
});
