/** Nonces of this deployment's questions rise, so that the deployment asked can tell which of two came first. */
const COUNTER_BITS = 53n;

/** The nonce of the question number `counter` of a relay that started at `epoch`. */
export function orderedNonce(epoch: number, counter: number): string {
  return `${epoch}-${counter}`;
}

/** The order of such a nonce; undefined if the nonce is of another kind, and says nothing. */
export function orderOf(nonce: string): bigint | undefined {
  const [, epoch, counter] = /^([0-9]{1,16})-([0-9]{1,15})$/.exec(nonce) ?? [];
  return epoch && counter ? (BigInt(epoch) << COUNTER_BITS) | BigInt(counter) : undefined;
}
