/** The real server, for examples that run in workerd: they speak to it over the network. */
import type { TestProject } from "vitest/node";
import { startServer } from "./server.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer();
  project.provide("locksUrl", `http://127.0.0.1:${server.httpPort}`);
  return () => server.stop();
}

declare module "vitest" {
  export interface ProvidedContext {
    readonly locksUrl: string;
  }
}
