import type { Env as ServiceEnv } from "../../src/cloudflare/env.ts";
import type { LockKey } from "../../src/cloudflare/lock-key/index.ts";

declare global {
  namespace Cloudflare {
    interface Env extends ServiceEnv {
      /** Only where test/cloudflare/main.ts is the Worker: in the project `objects`. */
      readonly LOCK_KEY: DurableObjectNamespace<LockKey>;
    }
    interface GlobalProps {
      mainModule: typeof import("./main.ts");
    }
  }
}
