/** On a refused upgrade: why. Who cannot resume gets a 101 with it, and a close code: browsers do not show a status. */
export const REFUSAL_HEADER = "X-Holdfast-Refusal";
