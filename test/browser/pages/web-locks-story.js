/** Written for `navigator.locks`, and for nothing else. Tells what happened, in order, to be compared. */
export async function story(locks, name) {
  const told = [];
  const tell = (...words) => told.push(words.join(" "));
  const outcome = (promise) =>
    promise.then(
      (value) => `fulfilled ${JSON.stringify(value)}`,
      (error) => `rejected ${error?.name ?? error}`,
    );
  const gate = () => Promise.withResolvers();

  tell("value", await outcome(locks.request(name, (lock) => [lock.name, lock.mode])));
  tell("options", await outcome(locks.request(name, { mode: "exclusive" }, async (lock) => lock.name)));
  tell("nothing", await outcome(locks.request(name, () => {})));
  tell(
    "throws",
    await outcome(
      locks.request(name, () => {
        throw new RangeError("the callback's own");
      }),
    ),
  );

  const [inside, leave] = [gate(), gate()];
  const holding = locks.request(name, async () => {
    tell("first in");
    inside.resolve();
    await leave.promise;
    tell("first out");
    return 1;
  });
  await inside.promise;
  tell("not available", await outcome(locks.request(name, { ifAvailable: true }, (lock) => lock)));
  tell("another name", await outcome(locks.request(`${name} 2`, { ifAvailable: true }, (lock) => lock.name)));

  const stop = new AbortController();
  const aborted = locks.request(name, { signal: stop.signal }, () => tell("never"));
  const second = locks.request(name, () => tell("second"));
  const third = locks.request(name, () => tell("third"));
  const mine = (infos) => infos.filter((each) => each.name === name);
  let snapshot = await locks.query();
  while (mine(snapshot.pending).length < 3) snapshot = await locks.query();
  const shape = ({ name, mode, clientId, ...others }) =>
    `${mode} ${name} ${typeof clientId} ${Object.keys(others).length}`;
  tell("held", mine(snapshot.held).map(shape));
  tell("pending", mine(snapshot.pending).map(shape));
  tell("one client", new Set([...mine(snapshot.held), ...mine(snapshot.pending)].map((each) => each.clientId)).size);
  stop.abort();
  tell("aborted", await outcome(aborted));
  const reasoned = new AbortController();
  reasoned.abort("enough");
  tell("aborted before", await outcome(locks.request(name, { signal: reasoned.signal }, () => tell("never"))));
  leave.resolve();
  tell("first", await outcome(holding));
  tell("second", await outcome(second));
  tell("third", await outcome(third));

  const late = new AbortController();
  const signalled = locks.request(name, { signal: late.signal }, async () => {
    late.abort();
    return "not stopped by its signal";
  });
  tell("aborted late", await outcome(signalled));

  const [robbed, goOn] = [gate(), gate()];
  const victim = locks.request(name, async () => {
    robbed.resolve();
    await goOn.promise;
    tell("victim goes on");
  });
  const victimEnd = outcome(victim);
  await robbed.promise;
  tell("thief", await outcome(locks.request(name, { steal: true }, (lock) => lock.name)));
  goOn.resolve();
  // A browser rejects at once, with an AbortError; the service's locks once the callback has ended, with a LockLostError.
  tell("victim", (await victimEnd).split(" ")[0]);

  tell("hyphen", await outcome(locks.request("-x", () => {})));
  tell("steal if available", await outcome(locks.request(name, { steal: true, ifAvailable: true }, () => {})));
  tell("signal and steal", await outcome(locks.request(name, { steal: true, signal: late.signal }, () => {})));
  tell("no callback", await outcome(locks.request(name, {})));
  tell("nobody left", mine((await locks.query()).held).length, mine((await locks.query()).pending).length);
  return told;
}
