/** One series of turns over another, turn by turn: the median, and the quartiles to show the noise. */
export interface Ratio {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function ratioOf(one: readonly number[], other: readonly number[]): Ratio {
  const ratios = one
    .map((value, turn) => value / (other[turn] ?? Number.NaN))
    .filter((ratio) => !Number.isNaN(ratio))
    .sort((a, b) => a - b);
  const at = (share: number) => {
    const place = (ratios.length - 1) * share;
    const below = ratios[Math.floor(place)] ?? Number.NaN;
    const above = ratios[Math.ceil(place)] ?? Number.NaN;
    return below + (above - below) * (place % 1);
  };
  return { median: at(0.5), low: at(0.25), high: at(0.75) };
}

/** The turns disagree by more than the aims leave room for: the machine was busy with something else. */
export const isNoisy = ({ low, high }: Ratio) => high > low * 1.3;

export const inWords = ({ median, low, high }: Ratio) => `${median.toFixed(2)} (${low.toFixed(2)}-${high.toFixed(2)})`;
