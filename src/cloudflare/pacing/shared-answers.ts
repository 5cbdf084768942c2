/**
 * Reports that many clients request at the same time. Equal questions share one answer: a request that arrives while a
 * report is being made waits for the next one, which serves all waiting requests. So an answer is never older than its
 * question, and few reports run at a time however many are requested.
 *
 * The platform does not let one request await another's promise. Requests share only plain data here and poll it after
 * short pauses.
 */
import { waitUntil } from "cloudflare:workers";

/** Concurrent reports per isolate. */
const MAX_RUNNING = 4;
/** A report that takes longer is considered stuck and no longer counts as running. */
const GIVEN_UP_MS = 15_000;
/** The platform ends a report silently with its object. One without a heartbeat for this long has ended. */
const SILENT_MS = 1_000;
const SIGN_OF_LIFE_EVERY_MS = 100;
/** Answers are kept this long, and at most this many, for requests that asked before the report began. */
const KEPT_MS = 1_000;
const MAX_KEPT = 4;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 100;

/** Position in the order of all questions and reports. */
export type SequenceNumber = number;

type Result = { readonly answer: unknown } | { readonly error: string };

interface Finished {
  readonly begun: SequenceNumber;
  readonly finishedAt: number;
  readonly result: Result;
}

interface Running {
  readonly begunAt: number;
  aliveAt: number;
}

let lastNumber = 0;
/** The running reports, by question. */
const running = new Map<string, Running>();
const finished = new Map<string, Finished>();
/** By question: how many requests wait for an answer or their turn, and when one of them last checked. */
const waiting = new Map<string, { readonly count: number; readonly lookedAt: number }>();

/** Now, in that order, for `sharedAnswer`: only reports that begin later answer a question asked now. */
export function nextInOrder(): SequenceNumber {
  lastNumber += 1;
  return lastNumber;
}

/**
 * The answer to a question asked at the moment `asked`, found by `find` or by another request with the same question.
 * It is shared and must not be modified. `question` names everything the answer depends on, including the caller's
 * rights.
 */
export async function sharedAnswer<Answer>(
  question: string,
  asked: SequenceNumber,
  find: () => Promise<Answer>,
): Promise<Answer> {
  const known = answerSince<Answer>(question, asked);
  if (known) return known.answer;
  // Do not overtake requests that are already waiting.
  if (waiting.size === 0 && hasTurn(question)) return answerNow(question, find);
  noteWaiting(question, 1);
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
      await scheduler.wait(pauseMs);
      const found = answerSince<Answer>(question, asked);
      if (found) return found.answer;
      if (hasTurn(question)) return await answerNow(question, find);
      noteWaiting(question, 0);
    }
  } finally {
    noteWaiting(question, -1);
  }
}

/** The result of a report that began after this moment. Throws if the report failed. */
function answerSince<Answer>(question: string, asked: SequenceNumber): { readonly answer: Answer } | undefined {
  const known = finished.get(question);
  if (!known || known.begun <= asked) return undefined;
  if ("error" in known.result) throw new Error(known.result.error);
  return { answer: known.result.answer as Answer };
}

/** Waiting requests may end silently: those that have not checked for a while are dropped. */
function noteWaiting(question: string, more: number): void {
  const lookedAt = Date.now();
  for (const [each, known] of waiting) if (lookedAt - known.lookedAt > KEPT_MS) waiting.delete(each);
  const count = (waiting.get(question)?.count ?? 0) + more;
  if (count > 0) waiting.set(question, { count, lookedAt });
  else waiting.delete(question);
}

function hasTurn(question: string): boolean {
  const now = Date.now();
  for (const [each, { begunAt, aliveAt }] of running)
    if (now - begunAt > GIVEN_UP_MS || now - aliveAt > SILENT_MS) running.delete(each);
  return !running.has(question) && running.size < MAX_RUNNING;
}

/** Makes a report. It continues when the requesting client hangs up: others may wait for it. */
function answerNow<Answer>(question: string, find: () => Promise<Answer>): Promise<Answer> {
  const report = makeReport(question, find);
  waitUntil(report.catch(() => {}));
  return report;
}

async function makeReport<Answer>(question: string, find: () => Promise<Answer>): Promise<Answer> {
  const begun = nextInOrder();
  const begunAt = Date.now();
  const own: Running = { begunAt, aliveAt: begunAt };
  running.set(question, own);
  const signsOfLife = setInterval(() => {
    own.aliveAt = Date.now();
  }, SIGN_OF_LIFE_EVERY_MS);
  try {
    const answer = await find();
    finish(question, begun, { answer });
    return answer;
  } catch (error) {
    finish(question, begun, { error: String(error) });
    throw error;
  } finally {
    clearInterval(signsOfLife);
  }
}

function finish(question: string, begun: SequenceNumber, result: Result): void {
  running.delete(question);
  const finishedAt = Date.now();
  for (const [each, known] of finished) {
    // Answers may be long, so keep few.
    const isOld = finished.size >= MAX_KEPT || finishedAt - known.finishedAt > KEPT_MS;
    if (isOld || each === question) finished.delete(each);
  }
  finished.set(question, { begun, finishedAt, result });
}
