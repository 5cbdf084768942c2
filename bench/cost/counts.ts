/** What the platform charges for, as counted while the service ran. No imports: it is used inside workerd and outside. */
export interface Counts {
  /** Requests that reached the Worker: HTTP, and upgrades to WebSocket. */
  readonly workerRequests: number;
  /** Calls of objects: RPC and fetch. */
  readonly calls: number;
  readonly alarms: number;
  /** WebSocket messages that objects received. */
  readonly messages: number;
  /** Sockets that objects saw closing. They wake an object and are not charged as requests. */
  readonly closes: number;
  readonly rowsRead: number;
  readonly rowsWritten: number;
  /** Time in which timers kept objects from hibernating, in milliseconds. */
  readonly heldMs: number;
}

/** One of the lives that `npm run cost` puts a price on, counted over `times` repetitions. */
export interface CountedLife {
  readonly name: string;
  readonly times: number;
  readonly counts: Counts;
}

export const NO_COUNTS: Counts = {
  workerRequests: 0,
  calls: 0,
  alarms: 0,
  messages: 0,
  closes: 0,
  rowsRead: 0,
  rowsWritten: 0,
  heldMs: 0,
};

type Counter = keyof Counts;
const COUNTERS = Object.keys(NO_COUNTS) as Counter[];

function combine(one: Counts, other: Counts, how: (a: number, b: number) => number): Counts {
  return Object.fromEntries(COUNTERS.map((name) => [name, how(one[name], other[name])])) as unknown as Counts;
}

export const difference = (after: Counts, before: Counts) => combine(after, before, (a, b) => a - b);
export const perTime = ({ counts, times }: CountedLife) => combine(counts, NO_COUNTS, (sum) => sum / times);

/** Whatever makes an object run: calls, alarms, messages and closing sockets. */
export const eventsOf = ({ calls, alarms, messages, closes }: Counts) => calls + alarms + messages + closes;
