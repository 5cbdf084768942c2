import type { KeyReply, RelayReply, StatsReply } from "../schemas.ts";

/** Typical replies, as examples in the document. */

const HOLDER = {
  owner_conn_id: 6120443871234567,
  label: "ci-runner-7",
  fence: "18a2f0c4d5e60007",
  since: "2026-11-16T08:30:00.000Z",
  held_s: 11.25,
  lease_s: 33,
  lease_expires_in_s: 21.75,
};
const WAITER = {
  position: 1,
  owner_conn_id: 1734029845512093,
  label: "ci-runner-8",
  since: "2026-11-16T08:30:04.000Z",
  waited_s: 7.25,
  timeout_in_s: 2.75,
};

export const STATS: StatsReply = {
  connections: 3,
  locks: [{ key: "nightly", owner_conn_id: 6120443871234567, lease_expires_in_s: 21.75, waiters: 1 }],
  semaphores: [{ key: "gpu", limit: 4, holders: 4, waiters: 1 }],
  idle_locks: [{ key: "import", idle_s: 12.25 }],
  idle_semaphores: [{ key: "mailer", idle_s: 3.5 }],
};

export const DETAILED_STATS: StatsReply = {
  connections: 3,
  locks: [
    {
      key: "nightly",
      owner_conn_id: 6120443871234567,
      lease_expires_in_s: 21.75,
      waiters: 1,
      held_by: [HOLDER],
      queue: [WAITER],
    },
  ],
  semaphores: [],
  idle_locks: [],
  idle_semaphores: [],
  next_cursor: "nightly",
};

export const GROUP: RelayReply = {
  id: "s0",
  quorum_need: 2,
  quorum_ok: true,
  peers: [
    { id: "s1", present: true, heard_s: 0.25 },
    { id: "s2", present: false, heard_s: 41.5 },
  ],
};

export const KEY: KeyReply = {
  key: "nightly",
  kind: "lock",
  limit: 1,
  holders: 1,
  waiters: 1,
  held_by: [HOLDER],
  queue: [WAITER],
};

export const KEY_WITH_HISTORY: KeyReply = {
  ...KEY,
  history: {
    now: "2026-11-16T08:30:11.250Z",
    grants: [
      {
        fence: "18a2f0c4d5e60006",
        owner_conn_id: 4401982276513344,
        label: "ci-runner-6",
        granted_at: "2026-11-16T08:29:41.500Z",
        waited_s: 0,
        held_s: 18.25,
        ended: "released",
      },
      {
        fence: "18a2f0c4d5e60007",
        owner_conn_id: 6120443871234567,
        label: "ci-runner-7",
        granted_at: "2026-11-16T08:30:00.000Z",
        waited_s: 3.75,
      },
    ],
  },
};

export const METRICS = `# HELP dflockd_ready 1 if the service takes new work.
# TYPE dflockd_ready gauge
dflockd_ready 1
# HELP dflockd_connections Live sessions.
# TYPE dflockd_connections gauge
dflockd_connections 3
`;
