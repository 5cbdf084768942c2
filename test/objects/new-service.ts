/** Each file finds a service that nobody has used, though the runtime it runs in is the one of the file before it. */
import { reset } from "cloudflare:test";
import { beforeAll } from "vitest";

beforeAll(() => reset());
