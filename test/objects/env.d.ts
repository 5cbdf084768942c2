import type { Env as ServiceEnv } from "../../src/objects/env.ts";

declare global {
  namespace Cloudflare {
    interface Env extends ServiceEnv {}
    interface GlobalProps {
      mainModule: typeof import("../../src/index.ts");
    }
  }
}
