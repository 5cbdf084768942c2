/** HTML that is safe to send: made by `html`, which escapes everything that is not `Markup`, or written by us. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type Piece = Markup | string | number | false | undefined | readonly Piece[];

/** A piece of a page. Values are escaped, lists joined; `false` and `undefined` render nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Piece[]): Markup {
  return new Markup(strings.reduce((text, string, index) => text + written(values[index - 1]) + string));
}

function written(piece: Piece): string {
  if (piece === false || piece === undefined) return "";
  if (piece instanceof Markup) return piece.text;
  if (typeof piece === "object") return piece.map(written).join("");
  return String(piece).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Text of the document: paragraphs between blank lines, code between backticks. */
export function prose(text: string): Markup[] {
  return text.split("\n\n").map((paragraph) => html`<p>${inline(paragraph)}</p>`);
}

/** One line of the document's text. */
export function inline(text: string): Piece[] {
  return text.split("`").map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
}
