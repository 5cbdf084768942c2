/** Fields of `package.json` that are about this repository, not about the package that users install. */
const OF_THE_REPOSITORY: readonly string[] = [
  "private",
  "workspaces",
  "scripts",
  "overrides",
  "devDependencies",
  "allowScripts",
  "cloudflare",
];

/** The manifest as it is packed. */
export function publishedManifest(manifest: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(manifest).filter(([name]) => !OF_THE_REPOSITORY.includes(name)));
}
