/** Orders texts by their UTF-8 bytes, which is the order of their code points: those of two UTF-16 units come last. */
export function compareBytes(a: string, b: string): number {
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (x !== y) return rankOf(x) - rankOf(y);
  }
  return a.length - b.length;
}

function rankOf(unit: number): number {
  const isHalf = unit >= 0xd800 && unit <= 0xdfff;
  return isHalf ? unit + 0x10000 : unit;
}
