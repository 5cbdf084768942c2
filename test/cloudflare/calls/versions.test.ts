/**
 * For minutes after a deploy, objects of two versions call each other. So each call is one plain object: a newer version may add
 * fields, which an older one ignores, and an older one does not send those that are new. Each method has its sample here.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { KeyObjectCommandOf, KeyObjectCommandType } from "../../../src/cloudflare/calls/key-calls.ts";
import { LISTENER_HEADER } from "../../../src/cloudflare/calls/replies.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { MetricsObject } from "../../../src/cloudflare/metrics/metrics-object.ts";
import { RateLimitObject } from "../../../src/cloudflare/rate-limit.ts";
import { RelayObject } from "../../../src/cloudflare/relay/relay-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { ENTRY_HEADER } from "../../../src/cloudflare/transports/client-entry.ts";
import type { ClaimCommand } from "../../../src/core/engine/index.ts";
import { httpSessionName } from "../../../src/core/session-names.ts";
import type { ClientEntry } from "../../../src/service.ts";
import { replaceNext } from "../spies.ts";
import {
  askKey,
  Client,
  command,
  fresh,
  grantedToken,
  keyStub,
  newSession,
  sessionStub,
  sessionsOn,
  tokenOf,
  until,
} from "../support.ts";
import { type OptionalPath, type Sample, without, withUnknownFields } from "./fields.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

type Story<Asked> = (name: string) => Promise<Sample<Asked>>;
type MethodsOf<Host> = {
  [Name in keyof Host]: [Host[Name]] extends [never]
    ? never
    : Host[Name] extends (...args: never[]) => unknown
      ? Name
      : never;
}[keyof Host];
type Asked<Method> = Method extends (asked: infer Only) => unknown ? NonNullable<Only> : Record<never, never>;
/** A story for each method that others call. */
type Stories<Host> = {
  readonly [Name in Exclude<MethodsOf<Host>, (typeof OF_THE_PLATFORM)[number]>]: Story<Asked<Host[Name]>>;
};

/** Methods that the platform calls. */
const OF_THE_PLATFORM = [
  "constructor",
  "fetch",
  "connect",
  "alarm",
  "webSocketMessage",
  "webSocketClose",
  "webSocketError",
] as const;

/** Each variant of a sample: as it is, with unknown fields, and without each optional field. */
function* variantsOf<Asked>({ asked, optional }: Sample<Asked>): Generator<Asked> {
  yield asked;
  yield withUnknownFields(asked);
  for (const path of Object.keys(optional)) yield without(asked, path);
}

/** Plays a story once for each variant. */
async function playAll<Asked>(
  story: Story<Asked>,
  send: (name: string, asked: Asked) => Promise<unknown>,
): Promise<void> {
  const count = [...variantsOf(await story(fresh("sample")))].length;
  for (let index = 0; index < count; index++) {
    const name = fresh("versions");
    const sample = await story(name);
    const asked = [...variantsOf(sample)][index] as Asked;
    expect([asked, await send(name, asked)]).toEqual([asked, sample.answers]);
  }
}

const like = (fields: Record<string, unknown>) => ({ outcome: expect.objectContaining(fields) });
const NOTHING = { outcome: undefined };
const NO_OPTIONS = {};

/** Has the key held, and returns its token. */
async function held(name: string, session = "holder", request = fresh("request")): Promise<string> {
  return grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ session, request }) }));
}

const claim = (request: string): Required<ClaimCommand> => ({
  session: request,
  request,
  leaseSeconds: 60,
  waitMs: 0,
  sessionless: { kind: "file", mark: "mark", tag: "tag", note: "note" },
  limit: 1,
  mayWait: false,
});
const CLAIM_OPTIONS = { "command.sessionless.mark": true, "command.sessionless.tag": true } as const;
const selector = { kind: "file", which: { by: "any" } } as const;

const COMMANDS: { readonly [Type in KeyObjectCommandType]: Story<KeyObjectCommandOf<Type>> } = {
  acquire: async () => ({
    asked: {
      type: "acquire",
      command: { ...command(), steals: true, asksWanted: true, isWatched: true, sessionless: claim("a").sessionless },
    },
    // A quorum needs a group.
    optional: {
      ...CLAIM_OPTIONS,
      "command.steals": true,
      "command.asksWanted": true,
      "command.sessionless": true,
      "command.quorum": true,
      "command.isWatched": true,
    },
    answers: like({ status: "granted" }),
  }),
  enqueue: async () => ({
    asked: {
      type: "enqueue",
      command: { session: "s", request: fresh("request"), limit: 1, leaseSeconds: 33, isWatched: true },
    },
    optional: { "command.isWatched": true },
    answers: like({ status: "granted" }),
  }),
  wait: async (name) => {
    await held(name);
    const place = { session: "s", request: fresh("request"), limit: 1, leaseSeconds: 33 };
    await askKey(keyStub(name), { type: "enqueue", command: place });
    return {
      asked: {
        type: "wait",
        command: {
          session: "s",
          request: fresh("request"),
          waitMs: 0,
          mayWait: true,
          isWatched: true,
          takesOver: true,
        },
      },
      optional: { "command.isWatched": true, "command.takesOver": true },
      answers: like({ status: "timeout" }),
    };
  },
  release: async (name) => ({
    asked: { type: "release", token: await held(name), session: "holder", id: fresh("call") },
    optional: { id: true },
    answers: like({ status: "released" }),
  }),
  giveBack: async (name) => ({
    asked: { type: "giveBack", token: await held(name), session: "holder", id: fresh("call") },
    optional: { id: true },
    answers: like({ status: "released" }),
  }),
  renew: async (name) => ({
    asked: { type: "renew", token: await held(name), leaseSeconds: 5, isWatched: true },
    optional: { isWatched: true },
    answers: like({ status: "renewed", leaseSeconds: 5 }),
  }),
  prolong: async () => ({
    asked: { type: "prolong", token: "0".repeat(32), session: "holder", leaseMs: 5_000 },
    optional: NO_OPTIONS,
    answers: like({ status: "not_held" }),
  }),
  pickUp: async (name) => {
    await held(name, "holder", `${name} request`);
    return {
      asked: { type: "pickUp", request: `${name} request` },
      optional: NO_OPTIONS,
      answers: like({ status: "granted" }),
    };
  },
  cancel: async (name) => {
    await held(name, "holder", `${name} request`);
    return {
      asked: { type: "cancel", request: `${name} request`, placeOf: "holder", sparesKnown: true, sparesPlace: true },
      optional: { placeOf: true, sparesKnown: true, sparesPlace: true },
      answers: NOTHING,
    };
  },
  watch: async (name) => {
    await held(name);
    return { asked: { type: "watch", session: "holder" }, optional: NO_OPTIONS, answers: NOTHING };
  },
  leave: async (name) => {
    await held(name);
    return {
      asked: { type: "leave", session: "holder", keepsReported: false },
      optional: NO_OPTIONS,
      answers: NOTHING,
    };
  },
  steal: async (name) => ({
    asked: { type: "steal", fence: (await held(name)).slice(0, 16) },
    optional: NO_OPTIONS,
    answers: like({ status: "stolen", session: "holder" }),
  }),
  claim: async (name) => ({
    asked: { type: "claim", command: claim(name) },
    optional: { ...CLAIM_OPTIONS, "command.limit": true, "command.mayWait": true },
    answers: like({ status: "granted" }),
  }),
  collect: async (name) => {
    await askKey(keyStub(name), { type: "claim", command: claim(name) });
    return { asked: { type: "collect", request: name }, optional: NO_OPTIONS, answers: like({ status: "granted" }) };
  },
  current: async (name) => {
    await held(name);
    return { asked: { type: "current" }, optional: NO_OPTIONS, answers: like({ session: "holder" }) };
  },
  refresh: async (name) => {
    await askKey(keyStub(name), { type: "claim", command: claim(name) });
    return {
      asked: { type: "refresh", command: { ...selector, leaseSeconds: 90, tag: "new" } },
      optional: NO_OPTIONS,
      answers: like({ status: "refreshed" }),
    };
  },
  remove: async (name) => {
    await askKey(keyStub(name), { type: "claim", command: claim(name) });
    return {
      asked: { type: "remove", selector, id: fresh("call") },
      optional: { id: true },
      answers: like({ status: "removed" }),
    };
  },
  relay: async (name) => {
    const proposal = { type: "propose", relay: "other", order: 1n } as const;
    await askKey(keyStub(name), { type: "relay", question: proposal });
    return {
      asked: { type: "relay", question: { type: "commit", relay: "other", order: 2n, leaseMs: 5_000, fence: 7n } },
      optional: { "question.order": true, "question.fence": true },
      answers: like({ status: "agreed" }),
    };
  },
  round: async (name) => {
    await held(name);
    const step = { do: "fail", request: "r", mark: "m", end: { status: "refused", fence: 1n, pauseMs: 5 } } as const;
    return { asked: { type: "round", step }, optional: NO_OPTIONS, answers: NOTHING };
  },
  agreedHold: async (name) => ({
    asked: { type: "agreedHold", token: await held(name), session: "holder" },
    optional: NO_OPTIONS,
    answers: NOTHING,
  }),
  prolongAgreed: async (name) => ({
    asked: { type: "prolongAgreed", token: await held(name), leaseMs: 5_000, askedAt: Date.now() },
    optional: NO_OPTIONS,
    answers: { outcome: false },
  }),
  fenceOfHolder: async (name) => {
    await held(name);
    return { asked: { type: "fenceOfHolder" }, optional: NO_OPTIONS, answers: like({ status: "held" }) };
  },
  describe: async (name) => {
    await held(name);
    return { asked: { type: "describe", detail: true }, optional: NO_OPTIONS, answers: like({ holderCount: 1 }) };
  },
};

const KEY: Stories<KeyObject> = {
  // Each command has a story of its own above.
  command: async () => ({ asked: { type: "current" }, optional: NO_OPTIONS as never, answers: NOTHING }),
  describe: async (name) => {
    await held(name);
    return {
      asked: { detail: true, history: true },
      optional: { detail: true, history: true },
      answers: expect.objectContaining({ holderCount: 1 }),
    };
  },
  state: async (name) => {
    await held(name);
    return { asked: { detail: true }, optional: NO_OPTIONS, answers: expect.objectContaining({ status: "used" }) };
  },
  rememberLabels: async () => ({ asked: { labels: { holder: "me" } }, optional: NO_OPTIONS, answers: undefined }),
};

const loss = { key: "k", token: "0".repeat(32), reason: "expired" } as const;
const notice = {
  key: "k",
  request: "r",
  kind: "granted",
  hasPlace: true,
  refusal: { status: "no_quorum", fence: 1n },
  offer: { token: "0".repeat(32), leaseSeconds: 5, at: 1, isWanted: true },
  mayBeTold: true,
} as const;
const NOTICE_OPTIONS = {
  hasPlace: true,
  refusal: true,
  offer: true,
  "offer.isWanted": true,
  mayBeTold: true,
} as const;

/** What keys say to a session, here to one that has never been. */
const LISTENER: Stories<SessionObject> = {
  deliver: async () => ({
    asked: notice,
    optional: NOTICE_OPTIONS,
    // The grant may be that of a client that is gone: then it is looked for at its key.
    answers: { answer: expect.stringMatching(/^(gone|taken)$/) },
  }),
  lose: async () => ({ asked: loss, optional: NO_OPTIONS, answers: undefined }),
  want: async () => ({ asked: { key: "k", token: "0".repeat(32) }, optional: NO_OPTIONS, answers: undefined }),
  isLive: async () => ({ asked: {}, optional: NO_OPTIONS, answers: { isLive: false } }),
};

const httpSession = (name: string) => env.HTTP_SESSION.getByName(httpSessionName(name));
const opened = (name: string) => httpSession(name).open({ address: "192.0.2.1" });
const released = [{ key: "k", token: "0".repeat(32) }];

const HTTP_SESSION: Stories<HttpSessionObject> = {
  ...LISTENER,
  deliver: async () => ({ asked: notice, optional: NOTICE_OPTIONS, answers: { answer: "gone" } }),
  open: async () => ({
    asked: { address: "192.0.2.1", label: "me" },
    optional: { label: true },
    answers: { status: "admitted" },
  }),
  touch: async (name) => {
    await opened(name);
    return { asked: { released }, optional: { released: true }, answers: { isThere: true } };
  },
  end: async (name) => {
    await opened(name);
    return { asked: { released }, optional: { released: true }, answers: { wasThere: true } };
  },
  perform: async (name) => {
    await opened(name);
    const request = {
      type: "acquire",
      key: name,
      limit: 1,
      waitSeconds: 0,
      leaseSeconds: 5,
      asksWanted: true,
    } as const;
    return {
      asked: { id: fresh("ask"), request, label: "me", released },
      optional: { label: true, released: true, "request.steals": true, "request.asksWanted": true },
      answers: { type: "answered", outcome: expect.objectContaining({ status: "ok", leaseSeconds: 5 }) },
    };
  },
  withdraw: async (name) => {
    await opened(name);
    return { asked: { key: name, id: "r", hasLeft: true }, optional: { hasLeft: true }, answers: undefined };
  },
};

const holding = (name: string) => ({ shard: name, counted: "keys", has: 1, cap: 1_000 }) as const;
const listing = (name: string) => ({ session: name, address: "192.0.2.1", transport: "ws", label: "me" }) as const;
const tallied = expect.objectContaining({ claims: {} });

const DIRECTORY: Stories<DirectoryObject> = {
  listKey: async (key) => ({ asked: { key, fence: 1n, lateMs: 5 }, optional: { lateMs: true }, answers: undefined }),
  admitKey: async (key) => ({ asked: { key, fence: 1n }, optional: NO_OPTIONS, answers: { isAdmitted: true } }),
  unlistKey: async (key) => ({ asked: { key, fence: 1n }, optional: NO_OPTIONS, answers: undefined }),
  openSession: async (name) => ({
    asked: listing(name),
    optional: { label: true },
    answers: { status: "admitted" },
  }),
  closeSession: async (session) => ({ asked: { session }, optional: NO_OPTIONS, answers: undefined }),
  relabel: async (session) => ({ asked: { session, label: "you" }, optional: NO_OPTIONS, answers: undefined }),
  labelsOf: async (name) => {
    await env.DIRECTORY.getByName(name).openSession(listing(name));
    return { asked: { sessions: [name] }, optional: NO_OPTIONS, answers: { labels: { [name]: "me" } } };
  },
  list: async () => ({ asked: { prefix: "", after: "", limit: 5 }, optional: NO_OPTIONS, answers: { keys: [] } }),
  census: async () => ({
    asked: {},
    optional: NO_OPTIONS,
    answers: { keys: 0, sessions: { tcp: 0, ws: 0, http: 0 }, late: 0, probed: 0 },
  }),
  describeSome: async () => ({
    asked: { max: 5 },
    optional: NO_OPTIONS,
    answers: { keys: [], unreachable: [], asked: 0 },
  }),
  describe: async (name) => {
    await held(name);
    return {
      asked: { keys: [name], detail: true },
      optional: NO_OPTIONS,
      answers: { keys: [expect.objectContaining({ key: name })], unreachable: [] },
    };
  },
  ping: async () => ({ asked: {}, optional: NO_OPTIONS, answers: undefined }),
  tally: async () => ({ asked: { ledger: "ledger" }, optional: { ledger: true }, answers: tallied }),
  repair: async () => ({ asked: { ledger: "ledger", counted: "keys" }, optional: NO_OPTIONS, answers: tallied }),
  claim: async (name) => ({
    asked: { ...holding(name), id: fresh("claim") },
    optional: NO_OPTIONS,
    answers: expect.objectContaining({ isGranted: true }),
  }),
  isFull: async (name) => ({ asked: holding(name), optional: NO_OPTIONS, answers: { isFull: false } }),
  settle: async (name) => ({ asked: holding(name), optional: NO_OPTIONS, answers: undefined }),
};

const METRICS: Stories<MetricsObject> = {
  report: async () => ({ asked: { sums: { keys_pruned_total: 1 } }, optional: NO_OPTIONS, answers: undefined }),
  read: async () => ({ asked: {}, optional: NO_OPTIONS, answers: expect.objectContaining({ sums: {} }) }),
};

const RATE_LIMIT: Stories<RateLimitObject> = {
  take: async () => ({
    asked: { rate: 5, burst: 5 },
    optional: NO_OPTIONS,
    answers: expect.objectContaining({ isAllowed: true }),
  }),
};

const round = (lock: string) => ({ lock, request: "r", mark: "m" });

const RELAY: Stories<RelayObject> = {
  present: async () => ({ asked: {}, optional: NO_OPTIONS, answers: { ids: [] } }),
  peers: async () => ({ asked: {}, optional: NO_OPTIONS, answers: { peers: [expect.objectContaining({ id: "p" })] } }),
  begin: async (lock) => ({ asked: { ...round(lock), leaseMs: 5_000 }, optional: NO_OPTIONS, answers: undefined }),
  over: async (lock) => ({ asked: round(lock), optional: NO_OPTIONS, answers: undefined }),
  prolong: async (lock) => ({
    asked: { lock, fence: 1n, commitMs: 5_000 },
    optional: NO_OPTIONS,
    answers: { isAgreed: false },
  }),
};

// biome-ignore lint/suspicious/noExplicitAny: rows of all methods of all objects in one table.
type AnyStories = Readonly<Record<string, Story<any>>>;
type Stub = Record<string, (asked: unknown) => Promise<unknown>>;

/** A relay that has one peer, which cannot be reached. */
function relay(name: string, call: (relay: Stub) => Promise<unknown>): Promise<unknown> {
  const group = { RELAY_ID: "s", RELAY_PEERS: "p=ws://127.0.0.1:9", RELAY_TOKEN: "x".repeat(16) };
  return runInDurableObject(env.METRICS.getByName(name), (_, state) =>
    call(new RelayObject(state, { ...env, ...group } as never) as unknown as Stub),
  );
}

const stubOf = (binding: { getByName(name: string): unknown }) => (name: string) => binding.getByName(name) as Stub;
const OBJECTS: readonly {
  readonly host: { readonly name: string; readonly prototype: object };
  readonly stories: AnyStories;
  readonly call: (name: string, method: string, asked: unknown) => Promise<unknown>;
}[] = [
  { host: KeyObject, stories: KEY, call: async (name, method, asked) => stubOf(env.KEY)(name)[method]?.(asked) },
  {
    host: SessionObject,
    stories: LISTENER,
    call: async (name, method, asked) => stubOf(env.SESSION)(name)[method]?.(asked),
  },
  {
    host: HttpSessionObject,
    stories: HTTP_SESSION,
    call: async (name, method, asked) => stubOf(env.HTTP_SESSION)(httpSessionName(name))[method]?.(asked),
  },
  {
    host: DirectoryObject,
    stories: DIRECTORY,
    call: async (name, method, asked) => stubOf(env.DIRECTORY)(name)[method]?.(asked),
  },
  {
    host: MetricsObject,
    stories: METRICS,
    call: async (name, method, asked) => stubOf(env.METRICS)(name)[method]?.(asked),
  },
  {
    host: RateLimitObject,
    stories: RATE_LIMIT,
    call: async (name, method, asked) => stubOf(env.RATE_LIMIT)(name)[method]?.(asked),
  },
  {
    host: RelayObject,
    stories: RELAY,
    call: (name, method, asked) => relay(name, async (object) => object[method]?.(asked)),
  },
];

describe.each(OBJECTS.map((object) => [object.host.name, object] as const))("%s", (_, { host, stories, call }) => {
  it("has a sample for each of its methods here", () => {
    const methods = Object.getOwnPropertyNames(host.prototype).filter(
      (name) => !(OF_THE_PLATFORM as readonly string[]).includes(name),
    );
    expect(Object.keys(stories).toSorted()).toEqual(methods.toSorted());
  });

  it.each(Object.keys(stories))("answers `%s` whatever fields another version adds or leaves out", async (method) => {
    const story = stories[method];
    if (story) await playAll(story, (name, asked) => call(name, method, asked));
  });
});

describe("a key", () => {
  it.each(Object.keys(COMMANDS) as KeyObjectCommandType[])(
    "carries out `%s` whatever fields another version adds or leaves out",
    async (type) => {
      const story = COMMANDS[type] as AnyStories[string];
      await playAll(story, (name, asked) => keyStub(name).command(asked));
    },
  );

  it("refuses a command that only another version knows, and goes on", async () => {
    const key = fresh("key");
    const token = await held(key);
    const unknown = { type: "lookAway", session: "holder" } as unknown as KeyObjectCommandOf<"watch">;
    await expect((async () => keyStub(key).command(unknown))()).rejects.toThrow("unknown command lookAway");
    expect(await askKey(keyStub(key), { type: "renew", token, leaseSeconds: 5 })).toMatchObject({ status: "renewed" });
  });
});

describe("what travels on sockets", () => {
  it("a claim is answered whatever fields another version adds or leaves out", async () => {
    const optional = { limit: true, mayWait: true, "sessionless.mark": true, "sessionless.tag": true };
    await playAll<ClaimCommand>(
      async (name) => ({
        asked: claim(name),
        optional: optional as { readonly [Path in OptionalPath<ClaimCommand>]: true },
        answers: { type: "answered", outcome: expect.objectContaining({ status: "granted" }) },
      }),
      async (name, asked) => {
        const headers = { Upgrade: "websocket", [LISTENER_HEADER]: name };
        const { webSocket } = await keyStub(name).fetch("http://key/", { headers });
        const answer = new Promise((resolve) =>
          webSocket?.addEventListener("message", ({ data }) => resolve(JSON.parse(String(data)))),
        );
        webSocket?.accept();
        webSocket?.send(JSON.stringify(asked));
        return answer;
      },
    );
  });

  it("a session opens whatever another version says of its client", async () => {
    const entry: ClientEntry = {
      protocol: "dflockd",
      transport: "ws",
      address: "192.0.2.1",
      isAuthenticated: true,
      rights: { scope: undefined, isAdmin: false },
      label: "me",
      hasWindow: false,
    };
    await playAll<unknown>(
      async () => ({ asked: entry, optional: { label: true } as never, answers: "ok" }),
      async (_, asked) => {
        const headers = { Upgrade: "websocket", [ENTRY_HEADER]: encodeURIComponent(JSON.stringify(asked)) };
        const client = await Client.on(sessionStub(newSession()).fetch("http://session/", { headers }));
        const answer = await client.ask("ping\n_\n_\n");
        client.close();
        return answer;
      },
    );
  });

  it("a waiting client gets the lock whatever fields another version's key adds to its notice, or leaves out", async () => {
    const paths = Object.keys(NOTICE_OPTIONS);
    const changes = [withUnknownFields<unknown>, ...paths.map((path) => (value: unknown) => without(value, path))];
    for (const change of changes) {
      const key = fresh("key");
      const token = await held(key);
      const client = await Client.open();
      client.send(`l\n${key}\n60\n`);
      await until(async () => (await sessionsOn(key)).length === 2);
      const { deliver } = SessionObject.prototype;
      replaceNext(SessionObject.prototype, "deliver", key, function (this: SessionObject, told) {
        return deliver.call(this, change(told) as typeof told);
      });
      await askKey(keyStub(key), { type: "release", token, session: "holder" });
      tokenOf(await client.line());
      vi.restoreAllMocks();
      client.close();
    }
  });
});
