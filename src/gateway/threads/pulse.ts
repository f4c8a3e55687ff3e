// Each thread writes here when its timer last ran, and whether its last report is unread. The main thread sees a stuck thread
// without asking it.
import { maxThreads } from "../../core/settings.ts";

/** How often a thread runs this timer and hands over what it reports. */
export const pulseMs = 1_000;

const beat = 0;
const isWaiting = 1;
/** A cache line. */
const stride = 64 / Float64Array.BYTES_PER_ELEMENT;

export class Pulse {
  readonly #row: Float64Array;

  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#row = new Float64Array(memory, thread * stride * Float64Array.BYTES_PER_ELEMENT, stride);
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((maxThreads + 1) * stride * Float64Array.BYTES_PER_ELEMENT);
  }

  /** By the monotonic clock; 0 before the first. */
  get lastMs(): number {
    return this.#row[beat] as number;
  }

  /** In the thread. */
  beat(nowMs: number): void {
    this.#row[beat] = nowMs;
  }

  get isReportWaiting(): boolean {
    return this.#row[isWaiting] === 1;
  }

  set isReportWaiting(is: boolean) {
    this.#row[isWaiting] = Number(is);
  }

  /** The thread has ended; another one gets its number. */
  forget(): void {
    this.#row.fill(0);
  }
}
