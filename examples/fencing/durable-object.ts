import { DurableObject } from "cloudflare:workers";

/** An object that takes writes only from the holder with the highest fence it has seen. */
export class Ledger extends DurableObject {
  /** False if somebody with a higher fence has written before: the lock is lost, and so is this write. */
  write(fence: string, balance: number): boolean {
    const { kv } = this.ctx.storage;
    if (fence < (kv.get<string>("fence") ?? "")) return false;
    // Both or neither: there is no await in between.
    kv.put("fence", fence);
    kv.put("balance", balance);
    return true;
  }

  read(): number | undefined {
    return this.ctx.storage.kv.get("balance");
  }
}
