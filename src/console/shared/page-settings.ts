function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="holdfast-${name}"]`)?.content ?? "";
}

/** Settings that the service has written into the page. */
export const page = {
  version: meta("version"),
  /** Requests need a token or a ticket. */
  needsToken: meta("access") === "token",
  /** The service is one of a group of deployments. */
  hasPeers: meta("peers") === "yes",
};
