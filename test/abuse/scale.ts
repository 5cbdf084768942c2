/** Whether the stories run at length, for the sake of finding what shows only after a while. */
export const isLong = process.env.ABUSE === "long";

/** `short` in an ordinary run of the tests, `long` where they run at length. */
export function scaled(short: number, long: number): number {
  return isLong ? long : short;
}

/** A test that runs at length may take ten minutes. */
export const TIMEOUT_MS = scaled(60_000, 600_000);
