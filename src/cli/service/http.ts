import type { Agent, ClientRequest, IncomingMessage } from "node:http";
import { createRequire } from "node:module";
import type { CommandError } from "../output/errors.ts";
import { nonsense, refusal, unreachable } from "./failures.ts";
import type { Target } from "./target.ts";

type Request = typeof import("node:http").request;

/**
 * `require`, because importing `node:http` as a module also loads Node's own WebSocket and fetch, which takes 25 ms
 * (Node 24.21: they are among its exports, and a module evaluates all of them).
 */
const http = createRequire(import.meta.url)("node:http") as typeof import("node:http");

/** Longer than any answer that does not wait for a lock. */
const ANSWERED_WITHIN_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface Question {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly body?: object;
  readonly session?: string;
  readonly label?: string;
  /** How much longer than usual the answer may take. */
  readonly waitMs?: number;
}

export interface Download {
  readonly signal: AbortSignal;
  /** How much longer than usual the answer may take to begin. */
  readonly waitMs: number;
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

/** The HTTP API of one server, over one connection. */
export class HttpService {
  readonly target: Target;
  #agent: Promise<{ agent: Agent; open: Request }> | undefined;

  constructor(target: Target) {
    this.target = target;
  }

  /** The document in the answer, undefined if there is none. Throws a `CommandError` that says what went wrong. */
  async ask<Document>(path: string, question: Question = {}): Promise<Document> {
    const { status, text } = await this.#send(path, question);
    if (status === 204) return undefined as Document;
    const document = documentIn(text);
    if (status >= 200 && status < 300 && document !== undefined) return document as Document;
    throw this.#refused(status, document);
  }

  /** The answer of a route that reports a state by its status code. */
  async state(path: string): Promise<{ readonly status: number; readonly word: string }> {
    const { status, text } = await this.#send(path, {});
    const document = documentIn(text) as { status?: unknown; error?: unknown; detail?: string } | undefined;
    if (typeof document?.status !== "string") throw this.#refused(status, document);
    return { status, word: document.status };
  }

  /**
   * The body of an answer that is not JSON, piece by piece. The reader gets an error if it breaks off. Throws a
   * `CommandError` if the answer is another one.
   */
  async download(path: string, type: string, { signal, waitMs }: Download): Promise<AsyncIterable<Buffer>> {
    const incoming = await this.#open(path, { waitMs }, signal);
    if (incoming.statusCode === 200 && incoming.headers["content-type"] === type) {
      incoming.setTimeout(ANSWERED_WITHIN_MS, () => incoming.destroy(noAnswer()));
      return incoming;
    }
    const status = incoming.statusCode ?? 0;
    throw this.#refused(status, documentIn(await this.#textOf(incoming)));
  }

  async close(): Promise<void> {
    (await this.#agent)?.agent.destroy();
  }

  #refused(status: number, document: { error?: unknown; detail?: string } | undefined): CommandError {
    if (typeof document?.error !== "string") return nonsense(this.target, `HTTP ${status}`);
    return refusal(this.target, status, document.error, document.detail);
  }

  async #send(path: string, question: Question): Promise<Reply> {
    const incoming = await this.#open(path, question);
    return { status: incoming.statusCode ?? 0, text: await this.#textOf(incoming) };
  }

  async #textOf(incoming: IncomingMessage): Promise<string> {
    try {
      return await textOf(incoming);
    } catch (error) {
      throw unreachable(this.target, error);
    }
  }

  /** The answer, once its head is there. A signal takes the place of the limit to how long its body may take. */
  async #open(path: string, question: Question, signal?: AbortSignal): Promise<IncomingMessage> {
    const { method = "GET", body, session, label, waitMs = 0 } = question;
    this.#agent ??= openAgent(this.target.url);
    const { agent, open } = await this.#agent;
    const { url, token } = this.target;
    const headers = {
      Accept: "application/json",
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...(session === undefined ? {} : { "X-Dflockd-Session": session }),
      ...(label === undefined ? {} : { "X-Holdfast-Label": label }),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    };
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown) => reject(unreachable(this.target, cause));
      let late: ClientRequest | IncomingMessage;
      const outgoing = open(`${url}${path}`, { method, headers, agent, ...(signal ? { signal } : {}) }, (incoming) => {
        late = incoming;
        if (signal) clearTimeout(timer);
        resolve(incoming);
      });
      late = outgoing;
      const limitMs = Math.min(waitMs + ANSWERED_WITHIN_MS, 2 ** 31 - 1);
      const timer = setTimeout(() => late.destroy(noAnswer()), limitMs);
      outgoing.once("close", () => clearTimeout(timer)).on("error", fail);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** Loads TLS only if needed. */
async function openAgent(url: string): Promise<{ agent: Agent; open: Request }> {
  if (!url.startsWith("https:")) return { agent: new http.Agent({ keepAlive: true }), open: http.request };
  const https = await import("node:https");
  return { agent: new https.Agent({ keepAlive: true }), open: https.request as Request };
}

const noAnswer = () => Object.assign(new Error(), { code: "ETIMEDOUT" });

async function textOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw new Error("the answer is too long");
  }
  return Buffer.concat(chunks).toString("utf8");
}

function documentIn(text: string): object | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === "object" && document !== null ? document : undefined;
  } catch {
    return undefined;
  }
}
