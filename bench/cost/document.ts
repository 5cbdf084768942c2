/** The text of `docs/cost.md`, and the table that `npm run cost` prints. */
import { type CountedLife, perTime } from "./counts.ts";
import {
  activeMsOf,
  dollarsByMeter,
  dollarsPerMillion,
  EVENT_MS,
  MESSAGES_PER_REQUEST,
  type Meter,
  OBJECT_GB,
  PRICES,
  READ_ON,
  SOURCES,
} from "./prices.ts";

const BEATS_PER_HOUR = 1_440;

/** A short figure: whole where it is whole, else with up to `digits` decimals. */
export function figure(value: number, digits = 2): string {
  const rounded = value.toFixed(digits);
  const text = digits > 0 ? rounded.replace(/\.?0+$/, "") : rounded;
  const [whole = "", part] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? grouped : `${grouped}.${part}`;
}

export const dollars = (value: number) => `$${value.toFixed(2)}`;

const HEADINGS = ["a million times", "rows written", "calls", "alarms", "messages", "Worker", "active ms", "dollars"];

function cells(life: CountedLife): string[] {
  const each = perTime(life);
  return [
    life.name,
    figure(each.rowsWritten, 1),
    figure(each.calls, 1),
    figure(each.alarms, 1),
    figure(each.messages, 1),
    figure(each.workerRequests, 1),
    figure(activeMsOf(each), 0),
    `**${dollars(dollarsPerMillion(each))}**`,
  ];
}

function parts(life: CountedLife): string[] {
  const by = dollarsByMeter(perTime(life));
  const meters: Meter[] = ["rowsWritten", "requests", "gbSeconds", "workerRequests", "rowsRead"];
  return [life.name, ...meters.map((meter) => (by[meter] < 0.005 ? "" : dollars(by[meter])))];
}

const row = (texts: readonly string[]) =>
  `| ${texts.join(" | ")} |`.replaceAll("|  |", "| |").replaceAll("|  |", "| |");
const table = (headings: readonly string[], rows: readonly string[][]) =>
  [row(headings), `|${"---|".repeat(headings.length)}`, ...rows.map(row)].join("\n");

/** The counts and prices of all lives, as plain text. */
export function printed(lives: readonly CountedLife[]): string {
  const rows = [HEADINGS, ...lives.map(cells)].map((each) => each.map((cell) => cell.replaceAll("*", "")));
  const width = Math.max(...rows.map(([name = ""]) => name.length));
  return rows
    .map(([name = "", ...rest]) => name.padEnd(width) + rest.map((cell) => cell.padStart(14)).join(""))
    .join("\n");
}

export function costDocument(lives: readonly CountedLife[]): string {
  const prices = Object.values(PRICES).map(({ unit, perMillion, included, source }) => [
    unit,
    `$${perMillion < 0.01 ? perMillion : perMillion.toFixed(2)}`,
    included,
    `[${source === "objects" ? "Durable Objects" : "Workers"}](${SOURCES[source]})`,
  ]);
  const beats = (BEATS_PER_HOUR / MESSAGES_PER_REQUEST) * PRICES.requests.perMillion;
  return `# What it costs on Cloudflare

Written by \`npm run cost\`. Do not edit it: run that again.

${table(HEADINGS, lives.map(cells))}

Each line is the whole of it: every object that takes part, the metrics included. On Node, none of this is charged.

Where the dollars go:

${table(["", "rows written", "requests", "active time", "Worker requests", "rows read"], lives.map(parts))}

## What the figures mean

- A **key in use** has been used before and is not yet pruned; the WebSocket is open. An acquire writes one row, and so does its
  release.
- A **key used once** is the first use of a key, its release, its entry in the directory, and its deletion an hour later.
- A **hand-over** is all that one client causes that has to wait: its place in the queue, its grant and its release.
- A **parked waiter** sleeps, and so do the session and the key. What the hour still costs is what the service does for itself.
  The client library sends a heartbeat every 2.5 seconds. The platform answers it without waking anything; if it charges
  these as messages, they are ${dollars(beats)} for a million hours of an open connection.
- A **connection** costs the upgrade, its place in the directory, and leaving it.
- **With the client library**: it asks to resume its session and to be told of locks that others take from it, and it has a label. A
  session that may be resumed writes down the keys that it uses, and who may resume it.
- **300 ms away**: the directory and the metrics. No client waits for them. But the object that reports to them is active until they have
  answered, and that time is charged.
- A **service binding** ([workers.md](workers.md)) has neither connection nor session. Calls between Workers are not charged.
- **\`LockKey\`** is a class in one's own Worker ([workers.md](workers.md#one-class-in-your-own-worker)), without a directory and without metrics.
  Its \`request\` also tells the key that the Worker is still there. A Worker that waits opens a socket to the key about once a second.

## Prices

Beyond what the paid plan includes, as published on ${READ_ON}:

${table(["a million", "dollars", "included per month", "source"], prices)}

${MESSAGES_PER_REQUEST} incoming WebSocket messages are charged as one request; outgoing ones are free. An object is charged for
${OBJECT_GB} GB while it is active. Storage ($0.20 per GB and month beyond 5 GB) is left out: an idle key is deleted, and with
it its database.

    dollars per million = rows written × ${PRICES.rowsWritten.perMillion.toFixed(2)} + rows read × ${PRICES.rowsRead.perMillion}
                        + (calls + alarms + messages / ${MESSAGES_PER_REQUEST}) × ${PRICES.requests.perMillion}
                        + Worker requests × ${PRICES.workerRequests.perMillion.toFixed(2)}
                        + active seconds × ${OBJECT_GB} × ${PRICES.gbSeconds.perMillion}

## How it is counted

The service runs in workerd, the runtime of Cloudflare, with counters around it (\`test/cloudflare/cost/\`): calls of objects, alarms
and messages as they happen, and rows as SQLite counts them. The rows of tables that are created count, and so does each alarm
that is set; the deletion of a whole database counts as one. Time is virtual: alarms and timers run when they are due, and an hour of waiting takes no time.

Active time has two parts. The time for which a timer keeps an object from hibernating is counted in full. The time for which
an object works is assumed: ${EVENT_MS} ms for each call, alarm, message and closing socket. It depends on how far a session is from
its key, and a session that waits for the answer of a far key is active all the while: 150 ms more for each call are
${dollars(0.15 * OBJECT_GB * PRICES.gbSeconds.perMillion)} for a million. The processor time of the Worker is left out; it is $0.02 for a million
requests of a millisecond.

Each line has a budget, and a test that fails when it is exceeded.
`;
}
