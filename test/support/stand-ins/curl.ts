/** The part of curl that the documents and the console use. Anything else is refused, so that no example passes that curl would not run. */
import { writeFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { refuse } from "./usage.ts";

const CANNOT_CONNECT = 7;
const TIMED_OUT = 28;

interface Transfer {
  url?: string;
  method?: string;
  body?: string;
  headers: string[];
  file?: string;
  afterwards?: string;
  showsHeaders: boolean;
  maxSeconds?: number;
}

function transfersIn(words: readonly string[]): Transfer[] {
  const transfers: Transfer[] = [];
  const left = [...words];
  const value = (option: string) => left.shift() ?? refuse("curl", `${option} without a value`);
  let current: Transfer = { headers: [], showsHeaders: false };
  const finish = () => {
    transfers.push(current);
    current = { headers: [], showsHeaders: false };
  };
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    if (word === "-s") continue;
    else if (word === "-i") current.showsHeaders = true;
    else if (word === "-X") current.method = value(word);
    else if (word === "-d") current.body = value(word);
    else if (word === "-H") current.headers.push(value(word));
    else if (word === "-u") current.headers.push(`Authorization: Basic ${Buffer.from(value(word)).toString("base64")}`);
    else if (word === "-o") current.file = value(word);
    else if (word === "-w") current.afterwards = value(word);
    else if (word === "--max-time") current.maxSeconds = Number(value(word));
    else if (word === "--next") finish();
    else if (word.startsWith("-") || current.url !== undefined) refuse("curl", word);
    else current.url = word;
  }
  finish();
  return transfers;
}

function send({ url = refuse("curl", "no address"), method, body, headers }: Transfer): Promise<IncomingMessage> {
  const asked = request(/^[a-z]+:\/\//.test(url) ? url : `http://${url}`, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    agent: false,
  });
  asked.setHeader("User-Agent", "curl/8.0.0");
  asked.setHeader("Accept", "*/*");
  if (body !== undefined) {
    asked.setHeader("Content-Type", "application/x-www-form-urlencoded");
    asked.setHeader("Content-Length", Buffer.byteLength(body));
  }
  for (const header of headers) {
    const [, name, text] = /^([^:]+):\s*(.*)$/.exec(header) ?? [];
    if (name === undefined || text === undefined) refuse("curl", `-H ${header}`);
    asked.setHeader(name, text);
  }
  return new Promise((resolve, reject) => {
    asked.once("response", resolve).once("error", reject).end(body);
  });
}

async function show(transfer: Transfer, reply: IncomingMessage): Promise<void> {
  const body = await buffer(reply);
  const { httpVersion, statusCode, statusMessage, rawHeaders } = reply;
  const pairs = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : []));
  const head = [`HTTP/${httpVersion} ${statusCode} ${statusMessage}`, ...pairs, "", ""].join("\r\n");
  const shown = Buffer.concat([Buffer.from(transfer.showsHeaders ? head : "", "latin1"), body]);
  if (transfer.file === undefined) process.stdout.write(shown);
  else writeFileSync(transfer.file, shown);
  const afterwards = (transfer.afterwards ?? "").replaceAll("\\n", "\n").replaceAll("%{http_code}", String(statusCode));
  if (afterwards.includes("%{")) refuse("curl", `-w ${transfer.afterwards}`);
  process.stdout.write(afterwards);
}

for (const transfer of transfersIn(process.argv.slice(2))) {
  const { maxSeconds } = transfer;
  const timer = maxSeconds === undefined ? undefined : setTimeout(() => process.exit(TIMED_OUT), maxSeconds * 1_000);
  try {
    await show(transfer, await send(transfer));
  } catch (error) {
    // Said in spite of -s: not every shell tells that the first program of a pipe has failed.
    process.stderr.write(`curl: cannot connect: ${error}\n`);
    process.exit(CANNOT_CONNECT);
  }
  clearTimeout(timer);
}
