/**
 * Reads transcript files (see README.md) into typed steps. Strict on purpose: a line, an escape, a placeholder, a
 * variable or a token name that is not known is an error, so that a typo can never make a case pass by saying less.
 */
import { VARIABLES } from "../../src/core/config/config.ts";
import { type Payload, parsePayload } from "./payload.ts";

export type Transport = "tcp" | "ws";
export type HostName = "Node" | "Cloudflare";

export type Action =
  | { readonly kind: "open"; readonly session: string }
  | { readonly kind: "send"; readonly session: string; readonly payload: Payload; readonly frame: "auto" | "binary" }
  | { readonly kind: "send-empty-text"; readonly session: string }
  | { readonly kind: "receive"; readonly session: string; readonly anyOrder: readonly Payload[] }
  | { readonly kind: "silence"; readonly session: string; readonly seconds: number }
  | { readonly kind: "closed"; readonly session: string; readonly minSeconds: number }
  | { readonly kind: "close"; readonly session: string }
  | { readonly kind: "halfclose"; readonly session: string }
  | { readonly kind: "sleep"; readonly seconds: number }
  | { readonly kind: "deadline"; readonly seconds: number }
  | { readonly kind: "restart"; readonly variables: Variables }
  | { readonly kind: "assert-less"; readonly left: Operand; readonly right: Operand };

export type Operand = { readonly token: string } | { readonly text: string };
export type Variables = Readonly<Record<string, string>>;
/** One action, with the place it was read from. */
export type Step = Action & { readonly line: number; readonly source: string };

export interface Transcript {
  readonly id: string;
  readonly title: string;
  readonly file: string;
  readonly transports: readonly Transport[];
  readonly hosts: readonly HostName[];
  readonly variables: Variables;
  /** The case must not share its server with others. */
  readonly needsOwnServer: boolean;
  readonly steps: readonly Step[];
}

export class TranscriptError extends Error {
  constructor(file: string, line: number, problem: string) {
    super(`${file}:${line}: ${problem}`);
    this.name = "TranscriptError";
  }
}

interface SourceLine {
  readonly text: string;
  readonly line: number;
}

export function parseTranscripts(file: string, text: string): Transcript[] {
  if (!text.endsWith("\n"))
    throw new TranscriptError(file, text.split("\n").length, "no line end at the end of the file");
  const cases: { header: SourceLine; body: SourceLine[] }[] = [];
  for (const [index, content] of text.slice(0, -1).split("\n").entries()) {
    const source = { text: content, line: index + 1 };
    if (content.startsWith("==")) cases.push({ header: source, body: [] });
    else if (content !== "") {
      const current = cases.at(-1);
      if (!current) throw new TranscriptError(file, source.line, "a line before the first case");
      current.body.push(source);
    }
  }
  return cases.map(({ header, body }) => new CaseParser(file, header).parse(body));
}

type SessionState = "open" | "half-closed" | "ended";

class CaseParser {
  private readonly file: string;
  private readonly header: SourceLine;
  private readonly variables: Record<string, string> = {};
  private readonly sessions = new Map<string, SessionState>();
  private readonly tokens = new Set<string>();
  private readonly steps: Step[] = [];
  private isFresh = false;
  private only: Transport | undefined;
  private onlyOn: HostName | undefined;
  private at: SourceLine;

  constructor(file: string, header: SourceLine) {
    this.file = file;
    this.header = header;
    this.at = header;
  }

  parse(body: readonly SourceLine[]): Transcript {
    const title = /^== (T[0-9]{2,3}) (\S.*\S)$/.exec(this.header.text);
    if (!title) this.fail("a case starts with `== T<number> <title>`");
    for (const source of body) {
      this.at = source;
      if (this.readSetting(source.text)) continue;
      const action = this.readAction(source.text);
      const last = this.steps.at(-1);
      if (action.kind === "receive" && last?.kind === "receive" && this.continuesGroup(source, last)) {
        this.steps[this.steps.length - 1] = { ...last, anyOrder: [...last.anyOrder, ...action.anyOrder] };
      } else this.steps.push({ ...action, line: source.line, source: source.text });
    }
    this.at = this.header;
    if (!this.steps.some((step) => ["receive", "silence", "closed"].includes(step.kind))) this.fail("expects nothing");
    const isRestarted = this.steps.some((step) => step.kind === "restart");
    return {
      id: title[1] as string,
      title: title[2] as string,
      file: this.file,
      transports: this.only ? [this.only] : ["tcp", "ws"],
      hosts: this.onlyOn ? [this.onlyOn] : ["Node", "Cloudflare"],
      variables: this.variables,
      needsOwnServer: this.isFresh || isRestarted,
      steps: this.steps,
    };
  }

  private fail(problem: string): never {
    throw new TranscriptError(this.file, this.at.line, `${problem}: ${this.at.text}`);
  }

  private readSetting(text: string): boolean {
    const [word, ...rest] = text.split(" ");
    if (word !== "config" && word !== "fresh" && word !== "transport" && word !== "host") return false;
    if (this.steps.length > 0) this.fail("settings come first in a case");
    const value = rest.join(" ");
    if (word === "config") Object.assign(this.variables, this.readVariable(value, this.variables));
    else if (word === "fresh" && value === "" && !this.isFresh) this.isFresh = true;
    else if (word === "transport" && (value === "tcp" || value === "ws") && !this.only) this.only = value;
    else if (word === "host" && (value === "Node" || value === "Cloudflare") && !this.onlyOn) this.onlyOn = value;
    else this.fail("malformed or repeated setting");
    return true;
  }

  private readVariable(text: string, known: Variables): Variables {
    const match = /^([A-Z_]+)=(\S+)$/.exec(text);
    if (!match) this.fail("expected NAME=VALUE");
    const [, name, value] = match as unknown as [string, string, string];
    if (!Object.hasOwn(VARIABLES, name)) this.fail("unknown variable");
    if (Object.hasOwn(known, name)) this.fail("variable given twice");
    return { [name]: value };
  }

  private readAction(text: string): Action {
    const session = /^([A-Z])(>bin|>text|>|<~|<none|<closed|<| open| close| halfclose)(?: (.*))?$/.exec(text);
    if (session) return this.readSessionAction(session[1] as string, (session[2] as string).trim(), session[3]);
    const [word, ...rest] = text.split(" ");
    switch (word) {
      case "sleep":
      case "deadline":
        return { kind: word, seconds: this.readSeconds(rest.join(" ")) };
      case "restart": {
        const variables: Record<string, string> = {};
        for (const item of rest) Object.assign(variables, this.readVariable(item, variables));
        for (const name of this.sessions.keys()) this.sessions.set(name, "ended");
        return { kind: "restart", variables };
      }
      case "assert": {
        const [left = "", sign, right = "", ...more] = rest;
        if (sign !== "<" || more.length > 0) this.fail("expected `assert a < b`");
        return { kind: "assert-less", left: this.readOperand(left), right: this.readOperand(right) };
      }
      default:
        return this.fail("not a line of a transcript");
    }
  }

  private readSessionAction(session: string, verb: string, rest: string | undefined): Action {
    const needs = (state: SessionState[]) => {
      const current = this.sessions.get(session);
      if (!current || !state.includes(current)) this.fail(`session ${session} is ${current ?? "not connected yet"}`);
    };
    const connect = () => {
      if (!this.sessions.has(session)) this.sessions.set(session, "open");
      needs(["open"]);
    };
    const bare = () => rest === undefined || this.fail("nothing may follow");
    switch (verb) {
      case "open":
        bare();
        if (this.sessions.has(session)) this.fail(`session ${session} is connected already`);
        connect();
        return { kind: "open", session };
      case ">":
        connect();
        if (!rest) this.fail("nothing to send");
        return { kind: "send", session, payload: this.readSent(rest as string), frame: "auto" };
      case ">bin":
        connect();
        if (!rest) this.needsWebSocket();
        return { kind: "send", session, payload: this.readSent(rest ?? ""), frame: "binary" };
      case ">text":
        bare();
        connect();
        this.needsWebSocket();
        return { kind: "send-empty-text", session };
      case "<":
      case "<~":
        needs(["open", "half-closed"]);
        return { kind: "receive", session, anyOrder: [this.readReceived(rest ?? "")] };
      case "<none":
        needs(["open", "half-closed"]);
        return { kind: "silence", session, seconds: this.readSeconds(rest ?? "") };
      case "<closed": {
        needs(["open", "half-closed"]);
        this.sessions.set(session, "ended");
        if (rest === undefined) return { kind: "closed", session, minSeconds: 0 };
        if (!rest.startsWith("min ")) this.fail("expected `<closed` or `<closed min S`");
        return { kind: "closed", session, minSeconds: this.readSeconds(rest.slice(4)) };
      }
      case "close":
        bare();
        needs(["open", "half-closed"]);
        this.sessions.set(session, "ended");
        return { kind: "close", session };
      case "halfclose":
        bare();
        needs(["open"]);
        this.sessions.set(session, "half-closed");
        return { kind: "halfclose", session };
      default:
        return this.fail("not a line of a transcript");
    }
  }

  private continuesGroup(source: SourceLine, last: Step & { kind: "receive" }): boolean {
    const unordered = /^[A-Z]<~ /;
    return unordered.test(source.text) && unordered.test(last.source) && source.text[0] === last.session;
  }

  private needsWebSocket(): void {
    if (this.only !== "ws") this.fail("an empty frame needs `transport ws`");
  }

  private readSent(text: string): Payload {
    const payload = this.readPayload(text);
    for (const part of payload) {
      if (part.kind === "int" || part.kind === "num") this.fail("a pattern cannot be sent");
      if (part.kind === "token" && !this.tokens.has(part.name)) this.fail(`token ${part.name} is not bound yet`);
    }
    return payload;
  }

  private readReceived(text: string): Payload {
    const payload = this.readPayload(text);
    const bytes = payload.map((part) => (part.kind === "bytes" ? part.latin1 : "")).join("");
    const last = payload.at(-1);
    const endsWithLine = last?.kind === "bytes" && last.latin1.endsWith("\n");
    if (!endsWithLine || bytes.indexOf("\n") !== bytes.length - 1) this.fail("expected exactly one line, ended by \\n");
    for (const part of payload) if (part.kind === "token") this.tokens.add(part.name);
    return payload;
  }

  private readPayload(text: string): Payload {
    try {
      return parsePayload(text);
    } catch (error) {
      return this.fail((error as Error).message);
    }
  }

  private readSeconds(text: string): number {
    if (!/^[0-9]+(\.[0-9]+)?$/.test(text) || Number(text) === 0) this.fail("expected a number of seconds");
    return Number(text);
  }

  private readOperand(text: string): Operand {
    if (this.tokens.has(text)) return { token: text };
    if (/^[0-9a-f]{16,32}$/.test(text)) return { text };
    return this.fail(`${text || "(nothing)"} is neither a bound token nor hex digits`);
  }
}
