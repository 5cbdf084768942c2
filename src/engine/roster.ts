import { Slot, type Waiter } from "./members.ts";

type Member = Slot | Waiter;

/** Who takes part in a key: holds and places by the request that hears of them, and by their session. */
export class Roster {
  readonly requests = new Map<string, Member>();
  readonly #bySession = new Map<string, Set<Member>>();

  membersOf(session: string): Member[] {
    return [...(this.#bySession.get(session) ?? [])];
  }

  /** A waiter that is promoted hands its request over to the slot; `dismiss` of either leaves the other's entry alone. */
  enrol(member: Member): void {
    this.requests.set(member.request, member);
    this.enrolSilently(member);
  }

  /** Enrols a member that no request hears of, because another speaks for it. */
  enrolSilently(member: Member): void {
    const members = this.#bySession.get(member.session);
    if (members) members.add(member);
    else this.#bySession.set(member.session, new Set([member]));
  }

  dismiss(member: Member): void {
    const requests = member instanceof Slot ? [member.request] : [member.request, member.waitRequest];
    for (const request of requests) {
      if (request !== undefined && this.requests.get(request) === member) this.requests.delete(request);
    }
    const members = this.#bySession.get(member.session);
    members?.delete(member);
    if (members?.size === 0) this.#bySession.delete(member.session);
  }
}
