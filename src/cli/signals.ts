/** Resolves on the first request to stop; every further one calls `hurry`. */
export function stopRequested(hurry: () => void): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => {
        if (isStopping) hurry();
        isStopping = true;
        resolve(signal);
      });
    }
  });
}
