import type { Env as ServiceEnv } from "../../src/cloudflare/env.ts";

declare global {
  namespace Cloudflare {
    interface Env extends ServiceEnv {}
    interface GlobalProps {
      mainModule: typeof import("../../src/cloudflare/index.ts");
    }
  }
}
