// Counts what happens in each iteration of the event loop, from one end of an iteration to the next.

export interface Iterations {
  /** Of those that had any. */
  readonly counts: readonly number[];
  readonly total: number;
  count(): void;
}

/** Counts from now on. */
export function countInIterations(cleanup: (end: () => void) => void): Iterations {
  const counts: number[] = [];
  let current = 0;
  let isOver = false;
  const onEnd = (): void => {
    if (current > 0) counts.push(current);
    current = 0;
    if (!isOver) setImmediate(onEnd);
  };
  setImmediate(onEnd);
  cleanup(() => {
    isOver = true;
  });
  return {
    get counts() {
      return current > 0 ? [...counts, current] : counts;
    },
    get total() {
      return counts.reduce((sum, count) => sum + count, current);
    },
    count: () => {
      current += 1;
    },
  };
}
