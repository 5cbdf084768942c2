/** Setup: a line in the log that its test does not expect fails it. */
import { watchLogs } from "./expected-logs.ts";

watchLogs();
