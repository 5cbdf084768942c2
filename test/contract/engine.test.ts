import { contract } from "./contract.ts";
import { engineHarness } from "./engine-adapter.ts";

contract("bare engines", async () => engineHarness(), { canCancel: true });
contract("engines rebuilt from their rows for every call", async () => engineHarness({ evictsAlways: true }), {
  canCancel: true,
});
