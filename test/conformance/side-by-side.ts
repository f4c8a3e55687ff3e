// Many exchanges over a few lanes at once: each lane takes the next job when it has done one.

export async function sideBySide<Lane, Job>(
  lanes: readonly Lane[],
  jobs: readonly Job[],
  run: (lane: Lane, job: Job) => Promise<void>,
): Promise<void> {
  const waiting = [...jobs];
  const work = async (lane: Lane): Promise<void> => {
    try {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) await run(lane, job);
    } finally {
      // One that fails ends all, but only between two exchanges: a lane must be at rest when it is used again.
      waiting.length = 0;
    }
  };
  const outcomes = await Promise.allSettled(lanes.map(work));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}
