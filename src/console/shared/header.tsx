import { useEffect, useMemo } from "hono/jsx/dom";
import { useLive } from "./live.ts";
import { page } from "./page-settings.ts";
import { Peers } from "./peers.tsx";
import { hrefOf, type Route } from "./route.ts";
import type { Service } from "./service.ts";
import { type Throughput, ThroughputWatch } from "./throughput.ts";
import { rate, span } from "./words.ts";

const ASK_EVERY_MS = 5_000;

interface HeaderProps {
  readonly service: Service;
  readonly route: Route;
  readonly onLeave: (why?: string) => void;
}

/** Navigation and the current state of the service. */
export function Header({ service, route, onLeave }: HeaderProps) {
  const watch = useMemo(() => new ThroughputWatch(service), [service]);
  const { value, problem, code } = useLive((signal) => watch.look(signal), ASK_EVERY_MS, [watch]);
  useEffect(() => {
    if (code === "unauthorized") onLeave(problem);
  }, [code]);
  const link = (name: Route["name"], href: string, text: string) => (
    <a href={href} aria-current={route.name === name ? "page" : undefined}>
      {text}
    </a>
  );
  return (
    <header>
      <a class="brand" href={hrefOf.keys}>
        <span class="mark" aria-hidden="true" />
        holdfast <small>{page.version}</small>
      </a>
      <nav aria-label="Console">
        {link("keys", hrefOf.keys, "Keys")}
        {link("playground", hrefOf.playground, "Playground")}
        <a href="docs">API</a>
      </nav>
      <p class={problem ? "connection lost" : "connection"} role="status">
        <span class="dot" aria-hidden="true" />
        {problem ? `${code === "unreachable" ? "Connection lost" : "Not up to date"}. ${problem}` : stateOf(value)}
      </p>
      {value && (
        <dl class="figures" aria-label="The service at this moment">
          <Figure term="sessions" value={value.sessions.toLocaleString("en")} />
          {value.flow && (
            <>
              <Figure term="keys" value={value.flow.keys.toLocaleString("en")} />
              <Figure term="waiting" value={value.flow.waiters?.toLocaleString("en") ?? "–"} />
              <Figure
                term="grants/s"
                value={value.flow.grantsPerSecond === undefined ? "…" : rate(value.flow.grantsPerSecond)}
              />
              <Figure term="wait p95" value={value.flow.waitP95 === undefined ? "–" : span(value.flow.waitP95)} />
              <Figure term="hold p95" value={value.flow.holdP95 === undefined ? "–" : span(value.flow.holdP95)} />
            </>
          )}
        </dl>
      )}
      {value && !value.flow && <p class="note">This ticket shows no figures of the whole service.</p>}
      {page.hasPeers && <Peers service={service} />}
      {service.credential !== undefined && (
        <button type="button" class="quiet" onClick={() => onLeave()}>
          Sign out
        </button>
      )}
    </header>
  );
}

function stateOf(value: Throughput | undefined): string {
  if (!value) return "Connecting …";
  return value.flow?.isDraining ? "Draining: the service takes no new work" : "Live";
}

function Figure({ term, value }: { readonly term: string; readonly value: string }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{value}</dd>
    </div>
  );
}
