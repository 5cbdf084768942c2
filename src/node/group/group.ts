import { FenceExhaustedError, type RelayAnswer, type RelayQuestion } from "../../core/engine/index.ts";
import type { Clock, Continuation, Dial } from "../../core/group/dial.ts";
import { PeerQuestions } from "../../core/group/peer-questions.ts";
import { Peers } from "../../core/group/peers.ts";
import { versionName } from "../../core/protocols/godistlock/relay.ts";
import type { Group } from "../../service.ts";
import { VERSION } from "../../version.ts";
import type { Peers as PeerDoor } from "../clients.ts";
import type { NodeHost } from "../host.ts";
import { IncomingPeers } from "./incoming-peers.ts";
import { Rounds } from "./rounds.ts";

/** This deployment's part in its group: `Group` for reports, `admit` for listeners. */
export interface JoinedGroup extends Group, PeerDoor {
  /** Closes the connections to the others. Theirs to us end with the listeners. */
  stop(): void;
}

/** Makes the host a member of the group that it is configured for; undefined if there is none. */
export function joinGroup(host: NodeHost, dial: Dial): JoinedGroup | undefined {
  const { batch, config, log, runtime } = host;
  if (!config.relay) return undefined;
  const { id, token, need } = config.relay;
  const ids = config.relay.peers.map((peer) => peer.id);
  const version = versionName(VERSION);
  const clock: Clock = { now: () => host.now(), after: (ms, callback) => runtime.after(ms, callback) };
  const inBatch: Clock = { ...clock, after: (ms, callback) => clock.after(ms, () => batch.enter(callback)) };

  const options = { peers: ids, need, epoch: host.now(), random: Math.random };
  const rounds = new Rounds(host, options, (peer, question) => peers.ask(peer, question));
  const peers = new Peers({
    config: config.relay,
    version,
    dial,
    clock,
    toldBy: (peer) => ({
      answered: (reply) => rounds.run((relay, now) => relay.heard(peer, reply, now)),
      lost: () => rounds.run((relay, now) => relay.unreachable(peer, now)),
    }),
  });

  const failed = (error: unknown) => log("error", "relay_request_failed", { error: String(error) });
  const questions = new PeerQuestions(
    { relay: (lock, question, answer) => askKey(host, lock, question, answer) },
    // Signs of life come outside the batch.
    { seesQuorum: (told) => peers.seesQuorum((isSeen) => batch.enter(() => told(isSeen))) },
    clock.now,
  );
  const incoming = new IncomingPeers(
    host.inputs,
    {
      identity: { id, version, peers: ids },
      token,
      readTimeoutMs: config.readTimeoutMs,
      clock: inBatch,
      heard: (peer) => peers.heard(peer),
      answer: (peer, asker, question, reply) => questions.answer(peer, asker, question, reply),
      failed,
    },
    (peer) => questions.left(peer, { done: () => {}, failed }),
  );

  host.group = rounds;
  return {
    present: async () => peers.present(),
    peers: () => new Promise((resolve) => peers.view(resolve)),
    admit: (arrival) => incoming.admit(arrival),
    stop: () => {
      incoming.stop();
      peers.shut();
    },
  };
}

/** What a peer asks of a key, part of a batch. While nothing can be stored, nothing new is promised. */
function askKey(
  host: NodeHost,
  lock: string,
  question: RelayQuestion,
  { done, failed }: Continuation<RelayAnswer | undefined>,
): void {
  let answer: RelayAnswer | undefined;
  try {
    if (question.type !== "propose" || host.isWell) answer = host.keys.ask(lock, { type: "relay", question });
  } catch (error) {
    if (!(error instanceof FenceExhaustedError)) throw error;
    failed(error);
    return;
  }
  done(answer);
}
