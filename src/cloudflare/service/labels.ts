import type { Labels } from "../../core/key/history.ts";
import type { KeyReport } from "../../service.ts";

/** The sessions that appear on a key. */
export function membersOf({ holders, queue, history }: KeyReport): string[] {
  return [...holders, ...queue, ...(history?.grants ?? [])].map(({ session }) => session);
}

/** The key with the labels of its members. In the history, sessions that are gone keep the label they were last seen with. */
export function withLabels<Report extends KeyReport>(report: Report, labels: Labels): Report {
  const labelled = <Member extends { readonly session: string }>(member: Member): Member => {
    const label = labels[member.session];
    return label === undefined ? member : { ...member, label };
  };
  const { holders, queue, history } = report;
  return {
    ...report,
    holders: holders.map(labelled),
    queue: queue.map(labelled),
    ...(history && { history: { ...history, grants: history.grants.map(labelled) } }),
  };
}
