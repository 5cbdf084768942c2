import { vi } from "vitest";
import { HttpSessionObject } from "../../src/cloudflare/http-session/http-session-object.ts";
import { SessionObject } from "../../src/cloudflare/session/session-object.ts";

/** From now on notices carry no grants, as if they were not fresh: sessions pick them up. */
export function withholdOffers(): void {
  for (const { prototype } of [SessionObject, HttpSessionObject]) {
    const { deliver } = prototype;
    vi.spyOn(prototype as SessionObject, "deliver").mockImplementation(function (this: SessionObject, notice) {
      const { offer: _, ...rest } = notice;
      return (deliver as SessionObject["deliver"]).call(this, rest);
    });
  }
}
