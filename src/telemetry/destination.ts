// Where log lines go: collected for a moment, written in one piece, never waited for. What is held back is bounded;
// beyond the bound lines are dropped and counted. A closed pipe, a full disk or a reader that stands still costs lines
// and never the process. (pino's own asynchronous destination loops for ever at exit when its pipe is gone.)
import { write } from "node:fs";
import { withoutBlocking } from "./standard-output.ts";

export interface LogDestination {
  write(line: string): void;
  /** Writes what is held back, then calls `done`: at the latest after `patienceMs`, written or not. */
  flush(done?: () => void): void;
  /** Lines lost so far, because too many were held back or writing failed. */
  readonly dropped: number;
}

export interface DestinationOptions {
  readonly fd: number;
  /** Bound of what is held back, in characters. */
  readonly maxLength?: number;
  /** How long a line may wait for others. */
  readonly delayMs?: number;
  readonly patienceMs?: number;
}

export function openDestination(options: DestinationOptions): LogDestination {
  const defaults = { maxLength: 4 * 1024 * 1024, delayMs: 20, patienceMs: 1000 };
  return new BufferedDestination({ ...defaults, ...options, fd: withoutBlocking(options.fd) });
}

const writeAtOnceLength = 64 * 1024;
const retryMs = 5;

class BufferedDestination implements LogDestination {
  readonly #options: Required<DestinationOptions>;
  #lines: string[] = [];
  /** Characters held back, those being written included. */
  #length = 0;
  #writing = false;
  /** Referenced on purpose: a process that ends by itself first writes its last lines. */
  #timer: NodeJS.Timeout | null = null;
  #waiting: (() => void)[] = [];
  dropped = 0;

  constructor(options: Required<DestinationOptions>) {
    this.#options = options;
  }

  write(line: string): void {
    if (this.#length + line.length > this.#options.maxLength) {
      this.dropped += 1;
      return;
    }
    this.#lines.push(line);
    this.#length += line.length;
    if (this.#writing) return;
    if (this.#length >= writeAtOnceLength) this.#writeHeld();
    else this.#timer ??= setTimeout(() => this.#writeHeld(), this.#options.delayMs);
  }

  flush(done: () => void = () => {}): void {
    if (!this.#writing && this.#lines.length > 0) this.#writeHeld();
    if (!this.#writing) {
      done();
      return;
    }
    const once = () => {
      clearTimeout(patience);
      this.#waiting = this.#waiting.filter((other) => other !== once);
      done();
    };
    const patience = setTimeout(once, this.#options.patienceMs);
    this.#waiting.push(once);
  }

  #writeHeld(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing = true;
    const length = this.#length;
    const bytes = Buffer.from(this.#lines.join(""));
    this.#lines = [];
    this.#writeBytes(bytes, () => {
      this.#writing = false;
      this.#length -= length;
      if (this.#lines.length > 0) this.#writeHeld();
      else for (const done of this.#waiting) done();
    });
  }

  #writeBytes(bytes: Buffer, done: () => void): void {
    write(this.#options.fd, bytes, (error, written) => {
      const retry = error?.code === "EAGAIN" || error?.code === "EBUSY";
      if (error !== null && !retry) {
        this.dropped += countLines(bytes);
        done();
      } else if (retry) {
        // The pipe is full: come back later, unless the process has nothing else to do than to wait for its reader.
        setTimeout(() => this.#writeBytes(bytes, done), retryMs).unref();
      } else if (written < bytes.length) {
        this.#writeBytes(bytes.subarray(written), done);
      } else {
        done();
      }
    });
  }
}

function countLines(bytes: Buffer): number {
  let lines = 0;
  for (const byte of bytes) if (byte === 0x0a) lines += 1;
  return lines;
}
