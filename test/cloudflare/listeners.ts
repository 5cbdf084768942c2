import { vi } from "vitest";
import { SessionObject } from "../../src/cloudflare/session/session-object.ts";
import type { NoticeAnswer } from "../../src/core/engine/index.ts";
import type { Loss, Notice, Want } from "../../src/core/session/effects.ts";
import { askKey, grantedToken, keyStub } from "./support.ts";

export interface FakeSession {
  deliver(notice: Notice): NoticeAnswer | Promise<NoticeAnswer>;
  lose?(loss: Loss): void;
  want?(want: Want): void;
}

/**
 * Puts scripted sessions in the place of real ones, so that a story decides which notices arrive, get lost or come
 * twice. Sessions without a script are gone. Keys, their storage and their alarms stay real.
 */
export function scriptSessions(): Map<string, FakeSession> {
  const scripts = new Map<string, FakeSession>();
  const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name ?? "";
  vi.spyOn(SessionObject.prototype, "deliver").mockImplementation(async function (this: SessionObject, notice) {
    return { answer: (await scripts.get(nameOf(this))?.deliver(notice)) ?? "gone" };
  });
  vi.spyOn(SessionObject.prototype, "lose").mockImplementation(async function (this: SessionObject, loss) {
    scripts.get(nameOf(this))?.lose?.(loss);
  });
  vi.spyOn(SessionObject.prototype, "want").mockImplementation(async function (this: SessionObject, want) {
    scripts.get(nameOf(this))?.want?.(want);
  });
  return scripts;
}

/** A session that picks up every grant at once and notes the order of grants. */
export function eager(key: string, name: string, granted: string[]): FakeSession {
  return {
    async deliver({ request, kind }): Promise<NoticeAnswer> {
      if (kind !== "granted") return "taken";
      granted.push(`${name}:${grantedToken(await askKey(keyStub(key), { type: "pickUp", request }))}`);
      return "taken";
    },
  };
}
