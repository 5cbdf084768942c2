/** Something that is held while a command runs. */
export interface Hold {
  /** What the command finds in its environment. */
  readonly variables: Readonly<Record<string, string>>;
  /** Resolves with a line for people when the hold is lost. Never rejects, and stays pending otherwise. */
  readonly lost: Promise<string>;
  /** Gives it up. Resolves with a complaint if that is not certain; nothing of a later holder is touched. Never rejects. */
  release(): Promise<string | undefined>;
}
