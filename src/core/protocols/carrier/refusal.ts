/**
 * The reason of a refused upgrade. A client that cannot resume gets it with a 101 and a close code, because browsers do
 * not show a page the status.
 */
export const REFUSAL_HEADER = "X-Holdfast-Refusal";
