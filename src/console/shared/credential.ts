const NAME = "holdfast.credential";

/**
 * The user's token or ticket, in the session storage of the tab: never in an address, a cookie or local storage.
 */
export const credential = {
  get(): string | undefined {
    return sessionStorage.getItem(NAME) ?? undefined;
  },
  keep(secret: string): void {
    sessionStorage.setItem(NAME, secret);
  },
  forget(): void {
    sessionStorage.removeItem(NAME);
  },
};
