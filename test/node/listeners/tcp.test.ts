import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { fixture } from "../../cli/support.ts";
import { becomes, dial, eventually, HOST, openPorts, TOO_MUCH_BYTES } from "./support.ts";

describe("a TCP client", () => {
  test("is heard and answered, and the port tells its protocol", async () => {
    const { guests, tcp, godistlock } = await openPorts();
    const client = dial(tcp, "ping\n_\n_\n");
    await becomes(() => client.heard, "ping\n_\n_\n");
    dial(godistlock, "x");
    await becomes(() => guests.map(({ arrival }) => arrival.protocol), ["dflockd", "godistlock"]);
    expect(guests[0]?.arrival).toMatchObject({ transport: "tcp", address: HOST, isAuthenticated: false });
  });

  test("may end its input and still hear answers", async () => {
    const { guests, tcp } = await openPorts();
    const client = dial(tcp);
    client.socket.end("l\nkey\n10\n");
    await becomes(() => guests[0]?.hasEndedInput, true);
    expect([guests[0]?.heardText, guests[0]?.ends]).toEqual(["l\nkey\n10\n", []]);
    guests[0]?.carrier.send(["late\n"]);
    guests[0]?.carrier.close(1000);
    await becomes(() => client.heard, "l\nkey\n10\nlate\n");
    await becomes(() => [client.socket.closed, guests[0]?.ends], [true, [1000]]);
  });

  test.each(["a close", "a reset"])("that ends with %s has left", async (how) => {
    const { guests, tcp } = await openPorts();
    const client = dial(tcp, "a\n");
    await becomes(() => client.heard, "a\n");
    if (how === "a reset") client.socket.resetAndDestroy();
    else client.socket.destroy();
    // Its host closes when the input has ended.
    await eventually(() => expect(guests[0]?.hasEndedInput || guests[0]?.ends.length).toBeTruthy());
    guests[0]?.carrier.close(1000);
    await becomes(() => guests[0]?.ends, [1000]);
  });

  test("gets all lines of one answer in order, however long they are", async () => {
    const { guests, tcp } = await openPorts();
    const client = dial(tcp, "a\n");
    await becomes(() => client.heard, "a\n");
    const lines = Array.from({ length: 20_000 }, (_, index) => `${index} ${"é".repeat(10)}\n`);
    guests[0]?.carrier.send(lines);
    guests[0]?.carrier.send(["x".repeat(1_000_000)]);
    guests[0]?.carrier.send(["end\n"]);
    guests[0]?.carrier.close(1000);
    guests[0]?.carrier.send(["never\n"]);
    await eventually(() => expect(client.socket.closed).toBe(true));
    const expected = Buffer.from(`a\n${lines.join("")}${"x".repeat(1_000_000)}end\n`).toString("latin1");
    expect(client.heard === expected).toBe(true);
  });

  test("that sends on is not reset before it has read the last words", async () => {
    const { guests, tcp } = await openPorts();
    const client = dial(tcp);
    await becomes(() => guests.length, 1);
    const errors: Error[] = [];
    client.socket.on("error", (error) => errors.push(error));
    const [guest] = guests;
    if (!guest) throw new Error("nobody");
    guest.answer = () => {};
    for (let round = 0; round < 50; round += 1) client.socket.write("x".repeat(10_000));
    await eventually(() => expect(guest.heardText.length).toBeGreaterThan(0));
    guest.carrier.send(["error\n"]);
    guest.carrier.close(1000);
    await becomes(() => client.heard, "error\n");
    await eventually(() => expect(client.socket.closed).toBe(true));
    expect(errors).toEqual([]);
  });

  test("is read from when its host wants to", async () => {
    const { guests, tcp } = await openPorts();
    const client = dial(tcp);
    await becomes(() => guests.length, 1);
    guests[0]?.carrier.pause();
    client.socket.write("a\n");
    await pause(100);
    expect(guests[0]?.heardText).toBe("");
    guests[0]?.carrier.resume();
    await becomes(() => client.heard, "a\n");
  });
});

describe("a client that does not read", () => {
  /** Asks for much and reads nothing. */
  async function deaf(writeTimeoutMs: number) {
    const ports = await openPorts({ writeTimeoutMs });
    const client = dial(ports.tcp);
    client.socket.pause();
    await becomes(() => ports.guests.length, 1);
    const [guest] = ports.guests;
    if (!guest) throw new Error("nobody");
    guest.answer = () => guest.carrier.send(["y".repeat(65_536)]);
    const asking = setInterval(() => client.socket.writable && client.socket.write("more\n"), 5);
    onTestFinished(() => clearInterval(asking));
    return { client, guest };
  }

  test("is cut off when it takes nothing for the write time-out", async () => {
    const { guest } = await deaf(300);
    await becomes(() => guest.ends, [1000]);
  });

  test("is cut off a minute after it was sent away, also without a write time-out", async () => {
    const { tcp, guests } = await openPorts({ writeTimeoutMs: 0 });
    dial(tcp).socket.pause();
    await becomes(() => guests.length, 1);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    guests[0]?.carrier.send(["y".repeat(TOO_MUCH_BYTES)]);
    guests[0]?.carrier.close(1000);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(guests[0]?.ends).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000);
    await becomes(() => guests[0]?.ends, [1000]);
  });

  test("is not read from meanwhile", async () => {
    const { client, guest } = await deaf(0);
    let heard = -1;
    for (let rounds = 0; heard !== guest.heardText.length; rounds += 1) {
      expect(rounds).toBeLessThan(40);
      heard = guest.heardText.length;
      await pause(500);
    }
    // 64 KiB each: what the operating system takes is a few megabytes.
    expect(guest.ends).toEqual([]);
    client.socket.resume();
    await eventually(() => expect(guest.heardText.length).toBeGreaterThan(heard));
  });

  test("and then reads slowly stays", async () => {
    const { client, guest } = await deaf(2_000);
    const reading = setInterval(() => {
      client.socket.resume();
      setTimeout(() => client.socket.pause(), 5);
    }, 150);
    onTestFinished(() => clearInterval(reading));
    await pause(5_000);
    expect(guest.ends).toEqual([]);
  });
});

describe("caps", () => {
  const caps = { sockets: 100, clients: 0, clientsPerAddress: 0, httpPerAddress: 0 };

  test("on clients close further ones without a byte, and places come back", async () => {
    const { guests, tcp } = await openPorts({ caps: { ...caps, clients: 2 } });
    const [first] = [dial(tcp, "a"), dial(tcp, "b")];
    await becomes(() => guests.length, 2);
    const third = dial(tcp, "c");
    await becomes(() => [third.socket.closed, third.heard], [true, ""]);
    first?.socket.resetAndDestroy();
    await becomes(() => guests[0]?.ends, [1000]);
    const fourth = dial(tcp, "d");
    await becomes(() => fourth.heard, "d");
  });

  test("on clients of one address leave others alone", async () => {
    const { guests, tcp } = await openPorts({ caps: { ...caps, clientsPerAddress: 1 } });
    dial(tcp, "a");
    await becomes(() => guests.length, 1);
    const again = dial(tcp, "b");
    await becomes(() => again.socket.closed, true);
    const other = dial(tcp, "c", "127.0.0.2");
    await becomes(() => other.heard, "c");
  });

  test("on open files close further clients and say so", async () => {
    const { guests, tcp, lines } = await openPorts({ caps: { ...caps, sockets: 1 } });
    dial(tcp, "a");
    await becomes(() => guests.length, 1);
    const next = dial(tcp, "b");
    await becomes(() => next.socket.closed, true);
    expect(lines).toEqual(["a connection was refused: 1 are open, and the limit of open files allows no more"]);
  });
});

describe("a client that the host does not let in", () => {
  test("is closed without a byte", async () => {
    const { clients, tcp, lines } = await openPorts();
    clients.refusal = "unavailable";
    const client = dial(tcp, "a");
    await becomes(() => [client.socket.closed, client.heard], [true, ""]);
    expect(lines).toEqual(["a TCP connection was not let in: unavailable"]);
  });

  test("hears an error if the service is misconfigured", async () => {
    const { tcp, godistlock } = await openPorts({ clients: undefined });
    const [one, other] = [dial(tcp, "a"), dial(godistlock, "a")];
    await becomes(() => [one.heard, other.heard], ["error\n", "ERR - internal\n"]);
    await becomes(() => [one.socket.closed, other.socket.closed], [true, true]);
  });

  test("hears so if it is the relay of a group that there is not", async () => {
    const { listeners } = await openPorts({ ports: { relay: { host: HOST, port: 0 } } });
    const client = dial(listeners.ports.relay ?? 0);
    await becomes(() => client.heard, "ERR - unknown-relay\n");
  });
});

describe("a port that is taken", () => {
  async function taken() {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
    onTestFinished(() => void server.close());
    return (server.address() as { port: number }).port;
  }

  test("is an error, and no port stays open", async () => {
    const port = await taken();
    const opening = openPorts({ ports: { dflockd: { host: HOST, port: 0 }, http: { host: HOST, port } } });
    await expect(opening).rejects.toThrow(`port ${port} on ${HOST} is already in use`);
  });

  test("is done without if nobody asked for it", async () => {
    const port = await taken();
    const free = { host: HOST, port: 0 };
    const { listeners, lines } = await openPorts({
      ports: { dflockd: free, godistlock: { host: HOST, port, isOptional: true } },
    });
    expect(Object.keys(listeners.ports)).toEqual(["dflockd"]);
    expect(lines).toEqual([`port ${port} on ${HOST} is already in use: godistlock clients are not served there`]);
  });
});

test("clients that we cut off have not left", async () => {
  const { guests, listeners, tcp } = await openPorts();
  const client = dial(tcp, "a");
  await becomes(() => client.heard, "a");
  listeners.cut();
  await becomes(() => client.socket.closed, true);
  expect(guests[0]?.ends).toEqual([]);
});

describe("over TLS", () => {
  const tls = { cert: readFileSync(fixture("cert.pem")), key: readFileSync(fixture("key.pem")) };
  const opened = () => openPorts({ tls, readTimeoutMs: 500 });

  function dialTls(port: number) {
    const socket = connectTls({ port, host: HOST, rejectUnauthorized: false }).on("error", () => {});
    onTestFinished(() => void socket.destroy());
    const client = { socket, heard: "" };
    socket.setEncoding("latin1").on("data", (text: string) => {
      client.heard += text;
    });
    return client;
  }

  test.each([
    ["nothing", ""],
    ["half a greeting", Buffer.from([0x16, 3, 1, 2, 0, 1])],
  ])("a client that sends %s has no session, and is not waited for", async (_, words) => {
    const { guests, tcp } = await opened();
    const clients = Array.from({ length: 5 }, () => dial(tcp, words));
    await eventually(() => expect(clients.map(({ socket }) => socket.closed)).not.toContain(false));
    expect(guests).toEqual([]);
  });

  test("a client that speaks something else is cut at once", async () => {
    const { guests, tcp } = await opened();
    const client = dial(tcp, "l\nkey\n10\n");
    await eventually(() => expect(client.socket.closed).toBe(true), 400);
    expect(guests).toEqual([]);
  });

  test("a client is served after its handshake, and may then be silent", async () => {
    const { guests, tcp } = await opened();
    const client = dialTls(tcp);
    await becomes(() => guests.length, 1);
    await pause(700);
    client.socket.write("ping\n_\n_\n");
    await becomes(() => client.heard, "ping\n_\n_\n");
    guests[0]?.carrier.send(["z".repeat(500_000)]);
    await becomes(() => client.heard.length, 500_009);
    client.socket.destroy();
    await eventually(() => expect(guests[0]?.hasEndedInput || guests[0]?.ends.length).toBeTruthy());
  });

  test("a client whose first words come with its handshake is heard", async () => {
    const { tcp } = await opened();
    const client = dialTls(tcp);
    client.socket.end("ping\n_\n_\n");
    await becomes(() => client.heard, "ping\n_\n_\n");
  });
});
