/** A lock that is held while a command runs. */
export interface Hold {
  /** Environment variables for the command. Those of the same name become a list. */
  readonly variables: Readonly<Record<string, string>>;
  /** Its place in such a list: the keys are given in one order and taken in another. */
  readonly place?: number;
  /** Resolves with a line for people when the lock is lost. Never rejects, and stays pending otherwise. */
  readonly lost: Promise<string>;
  /**
   * Releases the lock. Resolves with a complaint if that is not certain; a later holder is not affected. Never rejects.
   */
  release(): Promise<string | undefined>;
}
