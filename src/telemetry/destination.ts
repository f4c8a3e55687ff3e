// The destination of log lines. Lines are collected for a moment and written in one piece; nothing waits for that. The buffer
// is bounded: beyond the bound lines are dropped and counted. A closed pipe, a full disk or a stalled reader loses lines and
// never stops the process. (pino's own asynchronous destination loops for ever at exit if its pipe is gone.)
import { write } from "node:fs";
import { withoutBlocking } from "./standard-output.ts";

export interface LogDestination {
  /** Writes one line, or several, with their line ends. */
  write(lines: string): void;
  /** Writes the buffer, then calls `done`: at the latest after `flushTimeoutMs`, written or not. */
  flush(done?: () => void): void;
  /** Lines lost so far, because the buffer was full or writing failed. */
  readonly dropped: number;
}

export interface DestinationOptions {
  readonly fd: number;
  /** Bound of the buffer, in characters. */
  readonly maxLength?: number;
  /** How long a line waits for others before the buffer is written. */
  readonly delayMs?: number;
  readonly flushTimeoutMs?: number;
}

export function openDestination(options: DestinationOptions): LogDestination {
  const defaults = { maxLength: 4 * 1024 * 1024, delayMs: 20, flushTimeoutMs: 1000 };
  return new BufferedDestination({ ...defaults, ...options, fd: withoutBlocking(options.fd) });
}

const writeAtOnceLength = 64 * 1024;
const retryMs = 5;

class BufferedDestination implements LogDestination {
  readonly #options: Required<DestinationOptions>;
  #lines: string[] = [];
  /** Characters in the buffer, those being written included. */
  #length = 0;
  #writing = false;
  /** Keeps the process alive on purpose, so that a process that ends by itself writes its last lines. */
  #timer: NodeJS.Timeout | null = null;
  #waiting: (() => void)[] = [];
  dropped = 0;

  constructor(options: Required<DestinationOptions>) {
    this.#options = options;
  }

  write(lines: string): void {
    if (this.#length + lines.length > this.#options.maxLength) {
      this.dropped += countLineEnds(lines);
      return;
    }
    this.#lines.push(lines);
    this.#length += lines.length;
    if (this.#writing) return;
    if (this.#length >= writeAtOnceLength) this.#writeBuffer();
    else this.#timer ??= setTimeout(() => this.#writeBuffer(), this.#options.delayMs);
  }

  flush(done: () => void = () => {}): void {
    if (!this.#writing && this.#lines.length > 0) this.#writeBuffer();
    if (!this.#writing) {
      done();
      return;
    }
    const once = () => {
      clearTimeout(timer);
      this.#waiting = this.#waiting.filter((other) => other !== once);
      done();
    };
    const timer = setTimeout(once, this.#options.flushTimeoutMs);
    this.#waiting.push(once);
  }

  #writeBuffer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = true;
    const length = this.#length;
    const bytes = Buffer.from(this.#lines.join(""));
    this.#lines = [];
    this.#writeBytes(bytes, () => {
      this.#writing = false;
      this.#length -= length;
      if (this.#lines.length > 0) this.#writeBuffer();
      else for (const done of this.#waiting) done();
    });
  }

  #writeBytes(bytes: Buffer, done: () => void): void {
    write(this.#options.fd, bytes, (error, written) => {
      const retry = error?.code === "EAGAIN" || error?.code === "EBUSY";
      if (error !== null && !retry) {
        this.dropped += countLineEnds(bytes);
        done();
      } else if (retry) {
        // The pipe is full. The retry keeps no process alive that has nothing else to do.
        setTimeout(() => this.#writeBytes(bytes, done), retryMs).unref();
      } else if (written < bytes.length) {
        this.#writeBytes(bytes.subarray(written), done);
      } else {
        done();
      }
    });
  }
}

function countLineEnds(lines: string | Buffer): number {
  let count = 0;
  for (let at = lines.indexOf("\n"); at !== -1; at = lines.indexOf("\n", at + 1)) count += 1;
  return count;
}
