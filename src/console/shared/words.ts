/** A time span for people: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function span(seconds: number): string {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return two(whole, 60, "min", "s");
  if (whole < 86_400) return two(Math.floor(whole / 60), 60, "h", "min");
  return two(Math.floor(whole / 3_600), 24, "d", "h");
}

function two(amount: number, base: number, large: string, small: string): string {
  const rest = amount % base;
  return `${Math.floor(amount / base)} ${large}${rest === 0 ? "" : ` ${rest} ${small}`}`;
}

export function count(amount: number, one: string, many = `${one}s`): string {
  return `${amount.toLocaleString("en")} ${amount === 1 ? one : many}`;
}

/** A rate per second, with sensible digits. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString("en");
}

/** A fence without leading zeros. */
export function shortFence(fence: string): string {
  return fence.replace(/^0+(?=.)/, "");
}

/** Foreign text with its own writing direction, which does not affect the words around it. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}

interface Member {
  readonly label?: string;
  /** For members without a session. */
  readonly protocol?: "file" | "terraform" | "worker";
  readonly owner_conn_id: number;
}

/** Kind and number of a holder or waiter. */
export function ownerOf({ protocol, owner_conn_id }: Member): string {
  const nouns = { file: "file", terraform: "Terraform lock", worker: "Worker" };
  return `${protocol ? nouns[protocol] : "session"} ${owner_conn_id}`;
}

/** The label of a holder or waiter, or its kind and number. */
export function nameOf(member: Member): string {
  return member.label ?? ownerOf(member);
}
