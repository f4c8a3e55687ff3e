// The locks of a table: one word each, which holds the number of the thread that has it; 0 is free. With one thread
// there is nothing to lock. A thread that finds a lock taken tries for as long as an ordinary update takes, then sleeps. A
// thread that frees a lock wakes another one only if one sleeps. A lock is never taken over by time, because its owner may
// only be descheduled: when a thread has ended, the main thread repairs what it was changing, and frees its locks.

/** Set while threads may sleep for the lock. */
const waitingBit = 0x100;
const threadMask = 0xff;
/** About a microsecond: as long as an update takes. */
const attempts = 40;
/** In milliseconds. Nothing depends on it: it bounds the harm if a wake-up should be lost. */
const longestSleepMs = 20;
/** Policies that are asked together, and the lock of the coarse keys. A question about many quotas may need more. */
const usuallyHeld = 64;

/** Thrown in a thread that must not sleep for a lock, if one is not free soon. Nothing has changed. */
export class BusyError extends Error {}

export class Locks {
  readonly #w: Int32Array;
  readonly #thread: number;
  readonly #isShared: boolean;
  readonly #maySleep: boolean;
  /** The words of the locks that are wanted or held, in ascending order: all threads take them in this order. */
  #held = new Int32Array(usuallyHeld);
  #count = 0;

  /** `thread`: 1 to 255. `maySleep`: false for a thread that has to notice those that end, and free their locks. */
  constructor(w: Int32Array, thread: number, isShared: boolean, maySleep = true) {
    this.#w = w;
    this.#thread = thread;
    this.#isShared = isShared;
    this.#maySleep = maySleep;
  }

  /** Adds a lock to those that `acquire` takes. `at`: its word. */
  want(at: number): void {
    if (!this.#isShared) return;
    let i = this.#count;
    while (i > 0 && (this.#held[i - 1] as number) > at) i -= 1;
    if (i > 0 && this.#held[i - 1] === at) return;
    if (this.#count + 1 >= this.#held.length) this.#held = grown(this.#held);
    this.#held.copyWithin(i + 1, i, this.#count);
    this.#held[i] = at;
    this.#count += 1;
  }

  /** Takes all locks that are wanted. Throws a BusyError, with none of them taken, if this thread must not sleep. */
  acquire(): void {
    let taken = 0;
    try {
      for (; taken < this.#count; taken += 1) this.#take(this.#held[taken] as number);
    } finally {
      if (taken < this.#count) {
        this.#count = taken;
        this.release();
      }
    }
  }

  /** Takes one more lock, unless it is held. It must come after all others in the order. */
  acquireLast(at: number): void {
    if (!this.#isShared || (this.#count > 0 && this.#held[this.#count - 1] === at)) return;
    this.#take(at);
    this.#held[this.#count] = at;
    this.#count += 1;
  }

  /** Frees all locks. */
  release(): void {
    for (let i = this.#count - 1; i >= 0; i -= 1) this.free(this.#held[i] as number);
    this.#count = 0;
  }

  /** Does something while all locks that are wanted are held. */
  within<T>(run: () => T): T {
    this.acquire();
    try {
      return run();
    } finally {
      this.release();
    }
  }

  /** Takes a lock that is not among the others. A thread that has it must take no other one. */
  takeAlone(at: number): void {
    if (this.#isShared) this.#take(at);
  }

  /** Takes a lock if it is free soon. Never sleeps, as is right for the main thread. */
  tryAcquire(at: number): boolean {
    if (!this.#isShared) return true;
    for (let i = 0; i < attempts; i += 1) {
      if (Atomics.compareExchange(this.#w, at, 0, this.#thread) === 0) return true;
      Atomics.pause();
    }
    return false;
  }

  /** Frees a lock, also that of another thread. */
  free(at: number): void {
    if (!this.#isShared) return;
    if ((Atomics.exchange(this.#w, at, 0) & waitingBit) !== 0) Atomics.notify(this.#w, at, 1);
  }

  isHeldBy(at: number, thread: number): boolean {
    return (Atomics.load(this.#w, at) & threadMask) === thread;
  }

  #take(at: number): void {
    const w = this.#w;
    if (Atomics.compareExchange(w, at, 0, this.#thread) === 0) return;
    for (let i = 0; i < attempts; i += 1) {
      Atomics.pause();
      if (Atomics.load(w, at) === 0 && Atomics.compareExchange(w, at, 0, this.#thread) === 0) return;
    }
    if (!this.#maySleep) throw new BusyError("a lock of the table of counters is not free");
    // From here on it is taken with the bit, because others may sleep too.
    for (;;) {
      const owner = Atomics.compareExchange(w, at, 0, this.#thread | waitingBit);
      if (owner === 0) return;
      if (Atomics.compareExchange(w, at, owner, owner | waitingBit) === owner) {
        Atomics.wait(w, at, owner | waitingBit, longestSleepMs);
      }
    }
  }
}

/** How long to wait for a thread that has a lock: one that has ended is noticed in less. */
const maxBusyMs = 10_000;
const busyRetryMs = 2;

/** Runs something that may throw a BusyError, and again until it does not. */
export async function whenFree<T>(run: () => T): Promise<T> {
  for (let waitedMs = 0; ; waitedMs += busyRetryMs) {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof BusyError) || waitedMs >= maxBusyMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, busyRetryMs));
  }
}

function grown(list: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * list.length);
  larger.set(list);
  return larger;
}
