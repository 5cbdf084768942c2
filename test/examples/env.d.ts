import type { Env as ExampleEnv } from "../../examples/worker/index.ts";

declare global {
  namespace Cloudflare {
    interface Env extends ExampleEnv {
      readonly BUCKET: R2Bucket;
    }
  }
}

declare module "vitest" {
  export interface ProvidedContext {
    readonly locksUrl: string;
  }
}
