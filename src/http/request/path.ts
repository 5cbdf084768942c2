const MAX_KEY_BYTES = 256;
/** Maximum bytes of UTF-8 per UTF-16 unit of a string. */
const MAX_BYTES_PER_UNIT = 3;
const encoder = new TextEncoder();

const STEP = /\/(?:\.|%2e){1,2}(?:\/|$)/i;

/**
 * The path as sent: it is split into segments before anything is decoded. Only `.` and `..` are resolved, as everywhere
 * in URLs: Cloudflare's edge removes them, workerd by itself does not (2026-11). The mount of the service is left out.
 */
export function rawPath(
  { url }: { readonly url: string },
  { env }: { readonly env?: { readonly mount?: string } } = {},
): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.slice(start).search(/[?#]/);
  const path = start < 0 ? "/" : url.slice(start, end < 0 ? undefined : start + end);
  const whole = STEP.test(path) ? new URL(`http://holdfast${path}`).pathname : path;
  const mount = env?.mount ?? "";
  return whole.startsWith(mount) ? whole.slice(mount.length) : whole;
}

/** The segment at this index of a path, percent-decoded; undefined if it cannot be decoded. */
export function segmentAt(path: string, index: number): string | undefined {
  try {
    return decodeURIComponent(path.split("/")[index + 1] ?? "");
  } catch {
    return undefined;
  }
}

/** What is wrong with a key, or undefined. */
export function keyFault(key: string | undefined): string | undefined {
  if (key === undefined) return "key must be percent-encoded UTF-8";
  if (/[ \t\n\r]/.test(key)) return "key must not contain space, tab or line breaks";
  const isShort = key.length * MAX_BYTES_PER_UNIT <= MAX_KEY_BYTES;
  const hasRoom = isShort || encoder.encode(key).length <= MAX_KEY_BYTES;
  return key !== "" && hasRoom ? undefined : `key must have 1 to ${MAX_KEY_BYTES} bytes`;
}

export function isSessionId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}
