import type { ConfigResult } from "../../core/config/config.ts";
import { log } from "../../log.ts";
import type { Group, Service } from "../../service.ts";
import { type Env, readConfigOf } from "../env.ts";
import { nextInOrder, type SequenceNumber, sharedAnswer } from "../pacing/shared-answers.ts";
import { relayOf } from "../relay/relay-name.ts";
import { CloudflareDirectory } from "./directory.ts";
import { CloudflareKeys } from "./keys.ts";
import { ServiceMeter } from "./meter.ts";
import { retryAfter } from "./rate-limit.ts";
import { isReady } from "./readiness.ts";
import { CloudflareRestSessions } from "./rest-sessions.ts";
import { CloudflareSockets } from "./sockets.ts";

/** Keeps the work of a request or an object alive until the promise is settled. */
export type WaitUntil = (work: Promise<unknown>) => void;

/**
 * The service on Cloudflare, for one request or one report of a session. It must not outlive that: stubs and promises
 * belong to the request or object that made them.
 */
export class CloudflareService implements Service {
  readonly config: ConfigResult;
  readonly log = log;
  readonly keys: CloudflareKeys;
  readonly rest: CloudflareRestSessions;
  readonly sockets: CloudflareSockets;
  readonly directory: CloudflareDirectory;
  readonly meter: ServiceMeter;
  readonly backup = undefined;
  readonly #env: Env;
  readonly #asked: SequenceNumber | undefined;

  /** `asked`: when all questions were asked, if that was before they are put to the service. */
  constructor(env: Env, waitUntil: WaitUntil, asked?: SequenceNumber) {
    this.#env = env;
    this.#asked = asked;
    this.config = readConfigOf(env);
    this.keys = new CloudflareKeys(env, waitUntil);
    this.rest = new CloudflareRestSessions(env, waitUntil);
    this.sockets = new CloudflareSockets(env);
    this.directory = new CloudflareDirectory(env);
    this.meter = new ServiceMeter(env, waitUntil);
  }

  get group(): Group | undefined {
    if (!this.config.ok || !this.config.config.relay) return undefined;
    const relay = relayOf(this.#env);
    return {
      present: async () => (await relay.present()).ids,
      peers: async () => (await relay.peers()).peers,
    };
  }

  async retryAfter(address: string): Promise<number | undefined> {
    return this.config.ok ? retryAfter(this.#env, this.config.config, address) : undefined;
  }

  isReady(): Promise<boolean> {
    return isReady(this.#env);
  }

  share<Answer>(question: string, find: () => Promise<Answer>): Promise<Answer> {
    return sharedAnswer(question, this.#asked ?? nextInOrder(), find);
  }
}
