// Many exchanges over a few lanes at once: each lane takes the next job when it has done one.

export async function sideBySide<Lane, Job>(
  lanes: readonly Lane[],
  jobs: readonly Job[],
  run: (lane: Lane, job: Job) => Promise<void>,
): Promise<void> {
  const waiting = [...jobs];
  const work = async (lane: Lane): Promise<void> => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) await run(lane, job);
  };
  await Promise.all(lanes.map(work));
}
