/** The most letters in which a word may differ from the one that was meant, for each three letters of it. */
const LETTERS_PER_MISTAKE = 3;

/** ` (did you mean serve?)` if the word is nearly one of the names, or else nothing. */
export function suggestion(word: string, names: readonly string[]): string {
  const near = names
    .map((name) => ({ name, distance: distanceBetween(word, name) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(bare(name).length / LETTERS_PER_MISTAKE)))
    .sort((a, b) => a.distance - b.distance);
  return near[0] === undefined ? "" : ` (did you mean ${near[0].name}?)`;
}

const bare = (name: string) => name.replace(/^-+/, "");

/** Letters to add, drop, replace, or swap with their neighbour. */
function distanceBetween(from: string, to: string): number {
  let [beforeLast, last]: [number[], number[]] = [[], Array.from({ length: to.length + 1 }, (_, index) => index)];
  for (let row = 1; row <= from.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const [a, b] = [from[row - 1], to[column - 1]];
      const isSwapped = row > 1 && column > 1 && a === to[column - 2] && from[row - 2] === b;
      next[column] = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (a === b ? 0 : 1),
        isSwapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, next];
  }
  return last[to.length] ?? 0;
}
