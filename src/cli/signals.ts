/** Resolves at the first request to stop; a second request calls `hurry`. */
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
