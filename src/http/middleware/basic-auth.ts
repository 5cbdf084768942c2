/** Paths on which a client may also show its token as the password of HTTP Basic authentication. */
const WITH_BASIC_AUTH = ["/v1/files/", "/v1/terraform/"];

export function takesBasicAuth(path: string): boolean {
  return WITH_BASIC_AUTH.some((start) => path.startsWith(start));
}
