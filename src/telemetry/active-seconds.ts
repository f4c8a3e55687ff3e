// How long the event loop of this thread was busy.

/** Returns the time in which the event loop of this thread was not idle since its start. */
export function activeSeconds(): number {
  return performance.eventLoopUtilization().active / 1000;
}
