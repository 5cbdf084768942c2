import { packageVersion } from "../../front/system/package.ts";
import { overview } from "./help.ts";

/** Answers `holdfast --help` and `holdfast --version`. */
export function printOverview(flag: string): void {
  const isHelp = flag === "-h" || flag === "--help";
  process.stdout.write(isHelp ? overview(packageVersion()) : `holdfast ${packageVersion()}\n`);
}
