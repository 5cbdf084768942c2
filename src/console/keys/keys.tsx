import { useEffect, useMemo, useRef, useState } from "hono/jsx/dom";
import { useLasting } from "../shared/lasting-effect.ts";
import { useLive } from "../shared/live.ts";
import type { Service } from "../shared/service.ts";
import { count } from "../shared/words.ts";
import { EmptyService } from "./empty.tsx";
import { KeyList } from "./list.tsx";
import { entriesIn } from "./listing.ts";
import type { Rows } from "./rows.ts";
import { KeysWatch, lastWatch } from "./watch.ts";

const ASK_EVERY_MS = 2_000;
const TYPING_PAUSE_MS = 250;

/** All keys of the service, live, with holders and waiters. */
export function Keys({ service }: { readonly service: Service }) {
  const [watch, setWatch] = useState(() => lastWatch.of(service));
  const [typed, setTyped] = useState(watch.prefix);
  useEffect(() => lastWatch.keep(service, watch), [service, watch]);
  useLasting(() => {
    const prefix = typed.trim();
    if (prefix === watch.prefix) return;
    const timer = setTimeout(() => setWatch(new KeysWatch(service, prefix)), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const field = useRef<HTMLInputElement>(null);
  const clear = () => {
    setTyped("");
    field.current?.focus();
  };
  return (
    <div class="keys">
      <div class="keys-head">
        <h1>Keys</h1>
        <div class="filter">
          <label for="prefix">Filter by prefix</label>
          <input
            id="prefix"
            type="search"
            ref={field}
            value={typed}
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            placeholder="build/"
            onInput={(event: Event) => setTyped((event.target as HTMLInputElement).value)}
          />
        </div>
      </div>
      <Found key={watch.prefix} watch={watch} onClear={clear} />
    </div>
  );
}

/** The keys with one prefix. */
function Found({ watch, onClear }: { readonly watch: KeysWatch; readonly onClear: () => void }) {
  const live = useLive((signal) => watch.look(signal), ASK_EVERY_MS, [watch]);
  const listing = live.value ?? watch.listing;
  const entries = useMemo(() => entriesIn(listing), [listing]);
  const isWhole = listing.more === undefined;
  useEffect(() => {
    if (live.problem === undefined && watch.isShort) live.refresh();
  }, [listing]);
  const see = (rows: Rows) => {
    watch.view = rows;
    const isOld = [rows.first, rows.last].some((row) => performance.now() - (entries[row]?.at ?? 0) > ASK_EVERY_MS);
    if (live.problem === undefined && (isOld || watch.isShort)) live.refresh();
  };
  return (
    <>
      <p class="notice" role="alert" hidden={live.problem === undefined}>
        {live.problem && `Not up to date. ${live.problem}`}
      </p>
      {entries.length > 0 && (
        <>
          <p class="note" role="status">
            {isWhole ? count(entries.length, "key") : `The first ${count(entries.length, "key")}; more below`}
            {watch.prefix !== "" && (
              <>
                {" "}
                beginning with <bdi>{watch.prefix}</bdi>
              </>
            )}
          </p>
          <KeyList watch={watch} entries={entries} isWhole={isWhole} onView={see} />
        </>
      )}
      {entries.length === 0 && isWhole && <Nothing prefix={watch.prefix} onClear={onClear} />}
      {entries.length === 0 && !isWhole && !live.problem && <p class="note">Looking …</p>}
    </>
  );
}

function Nothing({ prefix, onClear }: { readonly prefix: string; readonly onClear: () => void }) {
  if (prefix === "") return <EmptyService />;
  return (
    <div class="panel nothing">
      <p role="status">
        No key begins with <code>{prefix}</code> at the moment.
      </p>
      <button type="button" onClick={onClear}>
        Clear filter
      </button>
    </div>
  );
}
