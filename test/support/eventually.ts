// Waiting for what a test cannot be told of, with a deadline instead of a guess at how long it takes.
import { closeMs } from "../../src/core/http-bounds.ts";

/** Longer than a machine stalls, and less than what a client may take to close its side. */
export const soonMs = closeMs - 100;

/** Longer than a busy machine stops a process. */
export const stallMs = 1_500;

// Taken before a test can hold the timers: how long a test waits is real.
const { setTimeout, clearTimeout, setImmediate, performance } = globalThis;

/**
 * Pauses a poll that has waited so long. What happens within this process takes a few turns of the event loop; after these,
 * asking a gateway all the time would take the processor from what is waited for.
 */
function pause(waitedMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (waitedMs < 1) setImmediate(resolve);
    else setTimeout(resolve, Math.min(waitedMs / 10, 50));
  });
}

/** A poll, or a step of a wait, counts as no more. */
const longestStepMs = 250;

/**
 * Returns what says how much of a deadline has passed: of the time since the last call, that in which this process has worked or
 * had nothing to do. Where other processes take the processor, or the machine stalls, a wait lasts longer.
 */
function deadlineClock(): () => number {
  const ownMs = (): number => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000 + performance.eventLoopUtilization().idle;
  };
  let passedMs = 0;
  let last = { wallMs: performance.now(), ownMs: ownMs() };
  return () => {
    const now = { wallMs: performance.now(), ownMs: ownMs() };
    passedMs += Math.min(now.wallMs - last.wallMs, now.ownMs - last.ownMs, longestStepMs);
    last = now;
    return passedMs;
  };
}

/** Polls until `condition` holds. Throws with `what` when the deadline passes first. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 5_000,
): Promise<void> {
  const passedMs = deadlineClock();
  while (!(await condition())) {
    const waitedMs = passedMs();
    if (waitedMs > deadlineMs) throw new Error(`within ${deadlineMs} ms it did not happen that ${what}`);
    await pause(waitedMs);
  }
}

/** The promise's value, or an error that says what was waited for. */
export async function within<T>(what: string, promise: Promise<T>, deadlineMs = 5_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    // Most promises are kept within the first step, and need no clock.
    const firstMs = Math.min(deadlineMs, longestStepMs);
    const wait = (passedMs: () => number): void => {
      const leftMs = deadlineMs - firstMs - passedMs();
      if (leftMs > 0) timer = setTimeout(wait, Math.min(leftMs, longestStepMs), passedMs);
      else reject(new Error(`not within ${deadlineMs} ms: ${what}`));
    };
    timer = setTimeout(() => wait(deadlineClock()), firstMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs something where the event loop runs timers, which it does before it reads. */
export function beforeReads(run: () => void): Promise<void> {
  return new Promise((resolve) => setTimeout(() => void resolve(run()), 0));
}

/**
 * Waits so many turns of the event loop. What both ends of a connection in this process could still do is done after a few,
 * and a machine that stalls counts as one.
 */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Waits until `value` has stayed the same for so many turns of the event loop, of at least a millisecond each: longer than the
 * system delays an acknowledgement, and a machine that stalls counts as one turn.
 */
export async function standsStill(what: string, value: () => number, count = 60): Promise<number> {
  let before = value();
  let still = 0;
  await eventually(`${what} stands still`, async () => {
    for (still = 0; still < count && value() === before; still += 1)
      await new Promise((resolve) => setTimeout(resolve, 1));
    before = value();
    return still === count;
  });
  return before;
}

/** Waits at most 20 turns of the event loop, at least 100 ms: a machine that stalls counts as one turn. */
export async function inFewTurns(what: string, condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  if (!condition()) throw new Error(`within 20 turns it did not happen that ${what}`);
}
