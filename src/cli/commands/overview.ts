import { packageVersion } from "../../front/package.ts";
import { overview } from "./help.ts";

/** Prints `holdfast --help`. */
export function printOverview(): number {
  process.stdout.write(overview(packageVersion()));
  return 0;
}
