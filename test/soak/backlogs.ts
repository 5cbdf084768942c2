/** What is seen of the service while keys are made. */
export interface Sample {
  /** Keys that were made so far. */
  readonly made: number;
  /** Keys that the directory lists. */
  readonly listed: number;
  /** Keys that have deleted themselves so far. */
  readonly deleted: number;
  /** Keys made at least a second ago that are neither listed nor deleted. */
  readonly unlisted: number;
  /** Keys that have rested for long enough, and are not deleted. */
  readonly overdue: number;
  readonly memoryMb: number;
  readonly files: number;
}

/** Whether a figure is higher at the end than half-way, by more than half and by more than `slack`. */
export function isGrowing(figures: readonly number[], slack: number): boolean {
  const quarter = Math.floor(figures.length / 4);
  if (quarter === 0) return false;
  const mean = (from: number) => figures.slice(from, from + quarter).reduce((sum, each) => sum + each, 0) / quarter;
  const [middle, end] = [mean(quarter), mean(figures.length - quarter)];
  return end > middle * 1.5 && end > middle + slack;
}
