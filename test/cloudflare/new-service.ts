/** Each file finds a service that nobody has used, and a clock that runs, though the runtime is the one of the file before it. */
import { beforeAll, vi } from "vitest";
import { newService } from "./rest.ts";

beforeAll(async () => {
  vi.useRealTimers();
  await newService();
});
