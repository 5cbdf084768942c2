/** The answer, or undefined if there is none in this time. Leaves no timer behind that would keep an object awake. */
export async function within<Answer>(ms: number, answer: Promise<Answer>): Promise<Answer | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), ms);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
