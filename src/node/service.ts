import type { KeyCommandOf, KeyOutcomeOf, KeyView } from "../core/engine/index.ts";
import type {
  Claim,
  DirectCommand,
  Directory,
  Gauges,
  Group,
  KeyReport,
  Keys,
  Labelled,
  RestSessions,
  Service,
  Sockets,
} from "../service.ts";
import { PageReader, totalsOf } from "./directory.ts";
import type { NodeHost } from "./host.ts";
import { RateLimiter } from "./rate-limit.ts";
import { SharedAnswers } from "./shared-answers.ts";

/** Names that one command looks at: about a millisecond of work. */
const NAMES_AT_ONCE = 500;

/** What of the service lives outside the host. */
export interface Outside {
  readonly sockets: Sockets;
  readonly group: Group | undefined;
}

/** The service port on top of the host: everything it tells is durable before it is told. */
export function serviceOf(host: NodeHost, { sockets, group }: Outside): Service {
  const { batch, config, log, metrics } = host;
  const limiter = new RateLimiter(config);
  const answers = new SharedAnswers((callback) => batch.afterBatch(callback));
  return {
    config: { ok: true, config },
    log,
    keys: keysOf(host),
    rest: restOf(host),
    sockets,
    directory: directoryOf(host),
    meter: {
      count: (family, labels) => metrics.count(family, labels),
      observe: (family, labels, seconds) => metrics.observe(family, labels, seconds),
      read: () => host.readMetrics(),
    },
    group,
    backup: { take: async () => host.snapshot() ?? { status: "in_memory" } },
    retryAfter: async (address) => limiter.retryAfter(address, host.now()),
    isReady: async () => host.isWell,
    share: (question, find, address) => answers.share(question, find, address),
  };
}

function keysOf(host: NodeHost): Keys {
  const { batch, keys, claims } = host;
  return {
    ask: async <Type extends DirectCommand["type"]>(key: string, command: KeyCommandOf<Type>) => {
      const outcome = await batch.ask(() => keys.ask(key, command));
      // The commit may have taken longer than the new lease.
      return isEnded(outcome, host.now()) ? ({ status: "not_held" } as KeyOutcomeOf<Type>) : outcome;
    },
    claim: (key, claim: Claim, signal) => claims.make(key, claim, signal),
    steal: (key, fence) =>
      batch.ask(() => {
        const outcome = keys.ask(key, { type: "steal", fence });
        return outcome.status === "stolen" ? labelled(host, outcome) : outcome;
      }),
    describe: (key, { history }) =>
      batch.ask(() => {
        const found = reportOf(host, key, true);
        const current = keys.get(key);
        return found && history && current ? { ...found, history: host.histories.of(current, host.now()) } : found;
      }),
  };
}

function isEnded(outcome: KeyOutcomeOf<DirectCommand["type"]>, now: number): boolean {
  return (
    outcome !== undefined && "status" in outcome && outcome.status === "refreshed" && outcome.hold.expiresAt <= now
  );
}

function restOf({ batch, sessions }: NodeHost): RestSessions {
  return {
    open: (address, label) => batch.ask(() => sessions.openRest(address, label)),
    ping: (id) => batch.ask(() => sessions.rest(id)?.saw() ?? false),
    end: (id) => {
      const { promise, resolve, reject } = Promise.withResolvers<boolean>();
      batch.enter(() => {
        batch.afterwards(() => {}, reject);
        const session = sessions.rest(id);
        if (session?.saw()) session.end({ left: () => resolve(true), failed: reject });
        else batch.afterwards(() => resolve(false));
      });
      return promise;
    },
    perform: (id, ask, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<RestSessions["perform"]>>>();
      batch.enter(() => {
        batch.afterwards(() => {}, reject);
        const session = sessions.rest(id);
        if (session) session.perform(ask, signal, { resolve, reject });
        else batch.afterwards(() => resolve({ status: "gone" }));
      });
      return promise;
    },
  };
}

function directoryOf(host: NodeHost): Directory {
  const { batch, keys, names, sessions } = host;
  const looking = { names, report: (name: string, detail: boolean) => reportOf(host, name, detail) };
  return {
    page: async (range) => {
      let reader: PageReader | undefined;
      const read = () => {
        batch.takesLong();
        reader ??= new PageReader(range, looking);
        const isMoreLeft = reader.read(NAMES_AT_ONCE);
        return isMoreLeft ? undefined : { sessions: sessions.byTransport, ...reader.page, isBehind: false };
      };
      for (;;) {
        const page = await batch.ask(read);
        if (page) return page;
      }
    },
    gauges: () =>
      batch.ask((): Gauges => {
        const { keys: count, ...byState } = totalsOf(keys, { now: host.now(), gcMaxIdleMs: host.config.gcMaxIdleMs });
        const { logBytes } = host;
        return {
          sessions: sessions.byTransport,
          keys: count,
          keysSampled: count,
          isEstimate: false,
          byState,
          logBytes,
        };
      }),
  };
}

/** The key as it is now, with the labels of its members; undefined if it counts as deleted. */
function reportOf(host: NodeHost, name: string, detail: boolean): KeyReport | undefined {
  const view: KeyView | undefined = host.keys.ask(name, { type: "describe", detail });
  if (!view) return undefined;
  const holders = view.holders.map((holder) => labelled(host, holder));
  return { ...view, holders, queue: view.queue.map((waiter) => labelled(host, waiter)) };
}

function labelled<View extends { readonly session: string }>(host: NodeHost, view: View): Labelled<View> {
  const label = host.sessions.labelOf(view.session);
  return label === undefined ? view : { ...view, label };
}
