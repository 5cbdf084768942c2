/** What Prometheus would make of an exposition. Strict: whatever the format does not allow is an error. */
export interface ParsedFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: ParsedSample[];
}
export interface ParsedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const HELP = /^# HELP ([a-z_]+) (.+)$/;
const TYPE = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/;
const SAMPLE = /^([a-z_]+)(?:\{(.*)\})? (\+Inf|[0-9][0-9.]*(?:e[+-]?[0-9]+)?)$/;
const LABEL = /([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(,(?=[a-z_])|$)/y;
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  counter: [""],
  gauge: [""],
  histogram: ["_bucket", "_sum", "_count"],
};

export function parseExposition(text: string): ParsedFamily[] {
  if (!text.endsWith("\n")) throw new Error("no line feed at the end");
  const lines = text.slice(0, -1).split("\n");
  const families: ParsedFamily[] = [];
  for (let at = 0; at < lines.length; ) {
    const [, name = "", help = ""] = match(HELP, lines[at++]);
    const [, typed, type = ""] = match(TYPE, lines[at++]);
    if (typed !== name) throw new Error(`TYPE of ${typed} under HELP of ${name}`);
    if (families.some((family) => family.name === name)) throw new Error(`${name} twice`);
    const family: ParsedFamily = { name, type, help, samples: [] };
    for (; at < lines.length && !lines[at]?.startsWith("#"); at++) family.samples.push(parseSample(family, lines[at]));
    families.push(family);
  }
  return families;
}

function parseSample(family: ParsedFamily, line: string | undefined): ParsedSample {
  const [, name = "", labels, value] = match(SAMPLE, line);
  const isOfFamily = SUFFIXES[family.type]?.some((suffix) => name === family.name + suffix);
  if (!isOfFamily) throw new Error(`${name} under ${family.name}`);
  return { name, labels: parseLabels(labels), value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) };
}

function parseLabels(text: string | undefined): Record<string, string> {
  const labels: Record<string, string> = {};
  if (text === undefined) return labels;
  LABEL.lastIndex = 0;
  do {
    const [, name = "", value = ""] = match(LABEL, text);
    if (name in labels) throw new Error(`label ${name} twice`);
    labels[name] = value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
  } while (LABEL.lastIndex < text.length);
  return labels;
}

function match(pattern: RegExp, line: string | undefined): RegExpExecArray {
  const found = pattern.exec(line ?? "");
  if (!found) throw new Error(`unreadable line: ${line}`);
  return found;
}

/** The value of one series; undefined when it is not there. */
export function sampleValue(
  families: readonly ParsedFamily[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const wanted = JSON.stringify(Object.entries(labels).sort());
  return families
    .flatMap(({ samples }) => samples)
    .find((sample) => sample.name === name && JSON.stringify(Object.entries(sample.labels).sort()) === wanted)?.value;
}
