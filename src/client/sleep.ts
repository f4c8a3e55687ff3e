// A wait that rejects with the signal's reason when its signal aborts. It always removes its timer and its listener.

/** The longest delay of a platform timer; a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Resolves after at least `ms`; rejects with `signal.reason` as soon as the signal aborts. */
export type Sleep = (ms: number, signal: AbortSignal | null) => Promise<void>;

export const sleep: Sleep = async (ms, signal) => {
  // Timers count whole milliseconds from a truncated reading, so one may fire a fraction of a millisecond early.
  let leftMs = Math.ceil(ms) + 1;
  while (leftMs > 0) {
    const stepMs = Math.min(leftMs, LONGEST_TIMER_MS);
    await timer(stepMs, signal);
    leftMs -= stepMs;
  }
};

function timer(ms: number, signal: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      clearTimeout(timeout);
      reject(signal?.reason);
    };
    const timeout = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
