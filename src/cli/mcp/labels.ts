import { labelOf, MAX_LABEL_CHARACTERS } from "../service/label.ts";

const MAX_NAME_CHARACTERS = 40;
const SEPARATOR = ": ";

/** Who this process is to others: the name given, or that of the MCP client before user, host and process id. */
export function agentName(given: string | undefined, client: string | undefined): string {
  const name = given ?? (client ? `${firstOf(client, 20)} ${labelOf(undefined)}` : labelOf(undefined));
  return firstOf(labelOf(name), MAX_NAME_CHARACTERS).trim();
}

/** The label of a hold: who, and what for. A reason that is too long is cut. */
export function labelFor(name: string, reason: string | undefined): string {
  const text = reason === undefined ? name : `${name}${SEPARATOR}${reason.trim()}`;
  const isTooLong = [...text].length > MAX_LABEL_CHARACTERS;
  return labelOf(isTooLong ? `${firstOf(text, MAX_LABEL_CHARACTERS - 1)}…` : text);
}

/** The parts of a label made by `labelFor`; one of another program has no reason, unless it is written the same way. */
export function partsOf(label: string): { readonly holder: string; readonly reason?: string } {
  const at = label.indexOf(SEPARATOR);
  return at <= 0 ? { holder: label } : { holder: label.slice(0, at), reason: label.slice(at + SEPARATOR.length) };
}

const firstOf = (text: string, characters: number) => [...text].slice(0, characters).join("");
