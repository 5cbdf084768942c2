// Node requires the attribute when a script imports this file without a bundler.
import manifest from "../package.json" with { type: "json" };

/** The version of the service, as package.json states it. */
export const VERSION: string = manifest.version;
