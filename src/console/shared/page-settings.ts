function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="holdfast-${name}"]`)?.content ?? "";
}

/** What the service has written into the page. */
export const page = {
  version: meta("version"),
  /** Nothing may be asked before a token or a ticket is shown. */
  needsToken: meta("access") === "token",
  /** The service is one of a group of deployments. */
  hasPeers: meta("peers") === "yes",
};
