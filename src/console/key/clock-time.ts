/** The time of day, where the reader is. */
export function clockTime(moment: string | number): string {
  return new Date(moment).toLocaleTimeString("en-GB");
}
