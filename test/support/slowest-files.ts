import type { Reporter, TestModule } from "vitest/node";

const SHOWN = 10;

/** Prints the slowest files at the end of a run: their tests and hooks, and what it took to get to them. */
export class SlowestFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const slowest = modules
      .map((module) => ({ module, ...timesOf(module) }))
      .toSorted((a, b) => b.testsMs + b.startMs - a.testsMs - a.startMs)
      .slice(0, SHOWN);
    console.log(`\n The ${slowest.length} slowest files (tests + start)`);
    for (const { module, testsMs, startMs } of slowest) {
      console.log(`${seconds(testsMs)} +${seconds(startMs)}  ${module.project.name}  ${module.relativeModuleId}`);
    }
    console.log();
  }
}

function timesOf(module: TestModule): { testsMs: number; startMs: number } {
  const { duration, prepareDuration, environmentSetupDuration, setupDuration, collectDuration } = module.diagnostic();
  return { testsMs: duration, startMs: prepareDuration + environmentSetupDuration + setupDuration + collectDuration };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(8);
}
