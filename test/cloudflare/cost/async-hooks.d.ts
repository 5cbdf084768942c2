/** The little of Node's module that workerd has and the counters use. */
declare module "node:async_hooks" {
  export class AsyncLocalStorage<Store> {
    /** Calls its argument in the context of now. */
    static snapshot(): <Result>(work: () => Result) => Result;
    getStore(): Store | undefined;
    run<Result>(store: Store, work: () => Result): Result;
  }
}
