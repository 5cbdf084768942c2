/** Lets at most `size` jobs run at once; the others wait their turn. */
export class Slots {
  private free: number;
  private readonly turns: (() => void)[] = [];

  constructor(size: number) {
    this.free = size;
  }

  async use<T>(job: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.turns.push(resolve));
    try {
      return await job();
    } finally {
      const next = this.turns.shift();
      if (next) next();
      else this.free += 1;
    }
  }
}
