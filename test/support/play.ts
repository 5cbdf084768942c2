/** Plays one transcript over one transport and stops at the first line that goes otherwise. */
import type { Operand, Step, Transcript, Transport, Variables } from "../transcripts/parse.ts";
import { encodePayload, matchPayload, type Payload } from "../transcripts/payload.ts";
import { sleep } from "./poll.ts";
import { Silence } from "./silence.ts";
import { openClient, type Ports, type WireClient } from "./wire-client.ts";

export interface Stage extends Ports {
  restart(variables: Variables): Promise<void>;
}

const FIRST_DEADLINE_SECONDS = 2;

export async function playTranscript(transcript: Transcript, transport: Transport, stage: Stage): Promise<void> {
  const play = new Play(transport, stage);
  try {
    for (const step of transcript.steps) {
      try {
        await play.perform(step);
      } catch (error) {
        const place = `${transcript.file}:${step.line} (${transcript.id}, ${transport})`;
        throw new Error(`${place}\n  expected: ${step.source}\n  got:      ${(error as Error).message}`, {
          cause: error,
        });
      }
    }
  } finally {
    play.closeAll();
  }
}

class Play {
  private readonly transport: Transport;
  private readonly stage: Stage;
  private readonly clients = new Map<string, WireClient>();
  private readonly tokens = new Map<string, string>();
  private deadlineMs = FIRST_DEADLINE_SECONDS * 1000;
  private readonly silence = new Silence();

  constructor(transport: Transport, stage: Stage) {
    this.transport = transport;
    this.stage = stage;
  }

  async perform(step: Step): Promise<void> {
    switch (step.kind) {
      case "open":
        await this.client(step.session);
        this.silence.acts();
        return;
      case "send": {
        const client = await this.client(step.session);
        const bytes = encodePayload(step.payload, this.tokens);
        this.silence.acts();
        return client.send(bytes, step.frame === "binary" ? { binary: true } : {});
      }
      case "send-empty-text":
        return (await this.client(step.session)).send("");
      case "receive":
        return this.silence.awaits(this.receive(await this.client(step.session), step.anyOrder));
      case "silence":
        return (await this.client(step.session)).silenceUntil(this.silence.pauses(step.seconds * 1000));
      case "closed": {
        const closed = (await this.client(step.session)).closed(this.deadlineMs);
        const { msAfterLastSend } = await this.silence.awaits(closed);
        if (step.minSeconds === 0 || msAfterLastSend >= step.minSeconds * 1000) return;
        throw new Error(`a close ${msAfterLastSend} ms after the last bytes were sent`);
      }
      case "close":
        this.silence.acts();
        return (await this.client(step.session)).close();
      case "halfclose":
        this.silence.acts();
        return (await this.client(step.session)).halfclose();
      case "sleep":
        this.silence.pauses(step.seconds * 1000);
        return sleep(step.seconds);
      case "deadline":
        this.deadlineMs = step.seconds * 1000;
        return;
      case "restart":
        await this.stage.restart(step.variables);
        this.silence.acts();
        return this.closeAll();
      case "assert-less": {
        const [left, right] = [this.textOf(step.left), this.textOf(step.right)];
        if (!(left < right)) throw new Error(`${left} is not less than ${right}`);
        return;
      }
      default:
        step satisfies never;
    }
  }

  closeAll(): void {
    for (const client of this.clients.values()) client.close();
    this.clients.clear();
  }

  private async client(session: string): Promise<WireClient> {
    const known = this.clients.get(session);
    if (known) return known;
    const client = await openClient(this.transport, this.stage);
    this.clients.set(session, client);
    return client;
  }

  private async receive(client: WireClient, anyOrder: readonly Payload[]): Promise<void> {
    const missing = [...anyOrder];
    while (missing.length > 0) {
      const line = await client.next(this.deadlineMs);
      const index = missing.findIndex((payload) => matchPayload(payload, line, this.tokens));
      const matched = missing[index];
      if (!matched) throw new Error(`line ${JSON.stringify(line)}`);
      for (const [name, token] of Object.entries(matchPayload(matched, line, this.tokens) ?? {})) {
        this.tokens.set(name, token);
      }
      missing.splice(index, 1);
    }
  }

  private textOf(operand: Operand): string {
    if ("text" in operand) return operand.text;
    const token = this.tokens.get(operand.token);
    if (token === undefined) throw new Error(`token ${operand.token} was never received`);
    return token;
  }
}
