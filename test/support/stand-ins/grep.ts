/** `grep -E pattern` and `grep -oE pattern` on standard input: the lines, or the parts of lines, that match. */
import { text } from "node:stream/consumers";
import { refuse } from "./usage.ts";

const [option = "", pattern = "", ...others] = process.argv.slice(2);
if (!/^-o?E$/.test(option) || others.length > 0) refuse("grep", process.argv.slice(2).join(" "));

const lines = (await text(process.stdin)).split("\n");
const matching = lines.filter((line) => new RegExp(pattern).test(line));
const found = option === "-oE" ? matching.flatMap((line) => line.match(new RegExp(pattern, "g")) ?? []) : matching;
process.stdout.write(found.map((line) => `${line}\n`).join(""));
process.exitCode = found.length > 0 ? 0 : 1;
