const NAME = "holdfast.credential";

/**
 * The token or ticket of whoever looks at the console. It lives as long as the tab, in its session storage, and is never put in
 * an address, a cookie or local storage.
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
