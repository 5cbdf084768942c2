import { expect, test } from "vitest";
import { type ResponseHead, ResponseParser } from "../../src/front/http/response-parser.ts";

/** What a parser makes of these pieces. */
function parsed(pieces: readonly string[], method = "GET") {
  const heads: ResponseHead[] = [];
  const seen = { heads, body: "", isOver: false };
  const parser = new ResponseParser(method, {
    head: (head) => heads.push(head),
    body: (bytes) => {
      seen.body += bytes.toString("latin1");
    },
    end: () => {
      seen.isOver = true;
    },
  });
  for (const piece of pieces) parser.take(Buffer.from(piece, "latin1"));
  return { ...seen, parser };
}

const RESPONSES: readonly [name: string, text: string, body: string][] = [
  ["a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello", "hello"],
  ["a length of 0", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""],
  ["chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", "hello"],
  ["trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n", "hello"],
  ["no body", "HTTP/1.1 204 No Content\r\n\r\n", ""],
  ["an interim response before", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"],
];

test.each(RESPONSES)("a response with %s is read, however its bytes arrive", (_, text, body) => {
  const whole = parsed([text]);
  expect(whole).toMatchObject({ body, isOver: true });
  expect(whole.heads).toHaveLength(1);
  for (let at = 1; at < text.length; at++) {
    const { heads, body: split, isOver } = parsed([text.slice(0, at), text.slice(at)]);
    expect({ heads, split, isOver }).toEqual({ heads: whole.heads, split: body, isOver: true });
  }
  expect(parsed([...text])).toMatchObject({ body, isOver: true });
});

test("a head tells status, reason and headers as they came", () => {
  const { heads } = parsed([
    "HTTP/1.1 404 Not Found\r\nX-A:  b \r\nset-cookie: 1\r\nset-cookie: 2\r\nConnection: close\r\n\r\n",
  ]);
  expect(heads).toEqual([
    {
      statusCode: 404,
      statusMessage: "Not Found",
      rawHeaders: ["X-A", "b", "set-cookie", "1", "set-cookie", "2", "Connection", "close"],
      headers: { connection: "close" },
    },
  ]);
});

test("the response to HEAD has no body, whatever length it tells", () => {
  expect(parsed(["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"], "HEAD")).toMatchObject({ body: "", isOver: true });
});

test("a body without a length ends with the connection, and no other does", () => {
  const { parser } = parsed(["HTTP/1.1 200 OK\r\n\r\nhel", "lo"]);
  expect(parser.close()).toBe(true);
  for (const [, text] of RESPONSES) expect(parsed([text.slice(0, -1)]).parser.close()).toBe(false);
});

test.each([
  ["no status line", "HTTP/1.1 OK\r\n\r\n"],
  ["a header without a colon", "HTTP/1.1 200 OK\r\nA\r\n\r\n"],
  ["a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello"],
  ["an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello"],
  ["a chunk without a size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"],
  ["a chunk longer than told", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n"],
  ["something behind it", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
  ["an endless head", `HTTP/1.1 200 OK\r\nA: ${"a".repeat(300_000)}`],
  ["an endless size", `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"0".repeat(5_000)}`],
])("a response with %s is refused", (_, text) => {
  expect(() => parsed([text])).toThrow();
});
