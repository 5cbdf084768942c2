const LABEL_HEADER = "X-Holdfast-Label";
const MAX_LABEL = 100;

/**
 * What tells a Worker that calls over a service binding from others, since it has no address: the label it gives itself.
 * Undefined for clients of the internet, whose requests have a `cf` that the edge sets: a label of theirs must not get them
 * out of a limit.
 */
export function boundWorkerOf({ cf, headers, url }: Request): string | undefined {
  if (cf !== undefined) return undefined;
  const label = headers.get(LABEL_HEADER) || new URL(url).searchParams.get("label");
  return label ? `worker ${label.slice(0, MAX_LABEL)}` : undefined;
}
