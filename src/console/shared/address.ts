/** The address of the service, without a slash at its end: that of the folder of the page, which may be mounted under a path. */
export function serviceAddress(): string {
  return new URL(".", location.href).href.replace(/\/$/, "");
}
