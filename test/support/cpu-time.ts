// What a computation costs in processor time. Unlike the time on a clock, it does not grow while other processes have the
// processor, so a bound of it says something of the computation alone.

/** The processor time of this thread, in milliseconds. */
export function cpuMsOf(act: () => unknown): number {
  const start = process.threadCpuUsage();
  act();
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
}
