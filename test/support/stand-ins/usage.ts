/** Ends the program as the real one does when it is called wrongly. An option that is not known here is a mistake in the documents, or in here. */
export function refuse(program: string, what: string): never {
  process.stderr.write(`${program} (stand-in): ${what} is not supported\n`);
  process.exit(2);
}
