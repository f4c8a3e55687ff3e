// What a computation costs in processor time. Unlike the time on a clock, it does not grow while other processes have the
// processor, so a bound of it says something of the computation alone.

/** The processor time of this thread. The kernel updates it only at each tick, unless that of the process is read. */
export function threadCpuUs(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** What `act` costs, in milliseconds. */
export function cpuMsOf(act: () => unknown): number {
  const startUs = threadCpuUs();
  act();
  return (threadCpuUs() - startUs) / 1000;
}
