/** The races of `races.test.ts`, in so many rounds that a rare mistake shows. */
import { describeRaces, useContenders } from "./support/races.ts";

/** Without the claim on an abandoned guard, half as many rounds fail reliably. */
describeRaces(useContenders(), 200, 100);
