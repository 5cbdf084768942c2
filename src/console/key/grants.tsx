import { useEffect, useMemo, useRef, useState } from "hono/jsx/dom";
import { useLasting } from "../shared/lasting-effect.ts";
import { inWords } from "../shared/service.ts";
import { count, nameOf, shortFence, span } from "../shared/words.ts";
import { clockTime } from "./clock-time.ts";
import { endingOf, type GrantRecord, type History, OUTCOME_WORDS, type Outcome } from "./history.ts";
import { type Spread, spreadOf } from "./percentiles.ts";
import { loadPlotter, TimelinePlot } from "./plot.ts";
import { type Timeline, timelineOf } from "./timeline.ts";

/** Recent grants of the key: a timeline, percentiles and a table. */
export function Grants({ history }: { readonly history: History }) {
  const timeline = useMemo(() => timelineOf(history), [history]);
  const { grants } = history;
  return (
    <section class="panel grants" aria-labelledby="grants-title">
      <h2 id="grants-title">Grants of the last {span(timeline.to - timeline.from)}</h2>
      {grants.length === 0 ? (
        <p class="note">None. The service remembers them for as long as the key is in use.</p>
      ) : (
        <>
          <Picture timeline={timeline} />
          <Legend />
          {timeline.isWithoutWaits && <p class="note">Too many waited at a time to draw how long; the table tells.</p>}
          <Percentiles grants={grants} />
          <GrantTable grants={grants} />
        </>
      )}
    </section>
  );
}

function Picture({ timeline }: { readonly timeline: Timeline }) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<TimelinePlot | undefined>(undefined);
  const latest = useRef(timeline);
  latest.current = timeline;
  const [problem, setProblem] = useState<string | undefined>(undefined);
  useLasting(() => {
    let isOver = false;
    const draw = async () => {
      const Plotter = await loadPlotter();
      if (!isOver && element.current && latest.current)
        plot.current = new TimelinePlot(Plotter, element.current, latest.current);
    };
    draw().catch((error: unknown) => setProblem(`The timeline cannot be drawn. ${inWords(error)}`));
    return () => {
      isOver = true;
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.show(timeline), [timeline]);
  const standing = timeline.bars.filter(({ outcome }) => outcome === "held").length;
  return (
    <>
      <div
        class="timeline"
        ref={element}
        role="img"
        aria-label={`Timeline of ${count(timeline.bars.length, "grant")}, ${standing} of them still held. The table below says the same.`}
      />
      <p class="problem">{problem ?? ""}</p>
    </>
  );
}

function Legend() {
  const outcomes = Object.entries(OUTCOME_WORDS) as [Outcome, string][];
  return (
    <ul class="legend" aria-label="What the bars mean">
      <li>
        <span class="swatch waited" aria-hidden="true" /> waited
      </li>
      {outcomes.map(([outcome, words]) => (
        <li key={outcome}>
          <span class={`swatch ${outcome}`} aria-hidden="true" /> {words}
        </li>
      ))}
    </ul>
  );
}

function Percentiles({ grants }: { readonly grants: readonly GrantRecord[] }) {
  const waits = spreadOf(grants.flatMap(({ waited_s }) => waited_s ?? []));
  const holds = spreadOf(grants.flatMap(({ held_s }) => held_s ?? []));
  return (
    <table class="percentiles">
      <caption>Of the last {count(grants.length, "grant")}</caption>
      <thead>
        <tr>
          <td />
          <th scope="col">p50</th>
          <th scope="col">p95</th>
          <th scope="col">p99</th>
          <th scope="col">max</th>
        </tr>
      </thead>
      <tbody>
        <SpreadRow title="Waited" spread={waits} />
        <SpreadRow title="Held" spread={holds} />
      </tbody>
    </table>
  );
}

function SpreadRow({ title, spread }: { readonly title: string; readonly spread: Spread | undefined }) {
  const values = spread ? [spread.p50, spread.p95, spread.p99, spread.max].map(span) : ["–", "–", "–", "–"];
  return (
    <tr>
      <th scope="row">{title}</th>
      {values.map((value, column) => (
        <td key={column}>{value}</td>
      ))}
    </tr>
  );
}

/** Newest first. Rows are rendered when it is opened. */
function GrantTable({ grants }: { readonly grants: readonly GrantRecord[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event: Event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>The same as a table</summary>
      {isOpen && (
        <table class="grant-table">
          <thead>
            <tr>
              <th scope="col">Granted</th>
              <th scope="col">To</th>
              <th scope="col">Waited</th>
              <th scope="col">Held</th>
              <th scope="col">End</th>
              <th scope="col">Fence</th>
            </tr>
          </thead>
          <tbody>
            {grants.toReversed().map((grant) => (
              <GrantRow key={grant.fence} grant={grant} />
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

function GrantRow({ grant }: { readonly grant: GrantRecord }) {
  return (
    <tr>
      <td>
        <time dateTime={grant.granted_at} title={grant.granted_at}>
          {clockTime(grant.granted_at)}
        </time>
      </td>
      <td class="name">{nameOf(grant)}</td>
      <td data-term="waited">{grant.waited_s === undefined ? "–" : span(grant.waited_s)}</td>
      <td data-term="held">{grant.held_s === undefined ? "–" : span(grant.held_s)}</td>
      <td>{endingOf(grant)}</td>
      <td class="mono" data-term="fence" title={grant.fence}>
        {shortFence(grant.fence)}
      </td>
    </tr>
  );
}
