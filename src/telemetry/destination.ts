// The destination of log lines. Lines are collected for a moment and written in one piece; nothing waits for that. The buffer
// is bounded: beyond the bound lines are dropped and counted. A closed pipe, a full disk or a stalled reader loses lines and
// never stops the process. (pino's own asynchronous destination loops for ever at exit if its pipe is gone.)
import { constants, fstatSync, openSync, write } from "node:fs";

export interface LogDestination {
  /** Writes one line, or several, with their line ends. */
  write(lines: string): void;
  /** Writes a copy of the first `length` bytes, which are one line. */
  writeBytes?(line: Buffer, length: number): void;
  /** Writes the buffer, then calls `done`: at the latest after `flushTimeoutMs`, written or not. */
  flush(done?: () => void): void;
  /** Lines lost so far, because the buffer was full or writing failed. */
  readonly dropped: number;
}

interface DestinationOptions {
  readonly fd: number;
  /** Bound of the buffer, in bytes. */
  readonly maxLength?: number;
  /** How long a line waits for others before the buffer is written. */
  readonly delayMs?: number;
  readonly flushTimeoutMs?: number;
}

export function openDestination(options: DestinationOptions): LogDestination {
  const defaults = { maxLength: 4 * 1024 * 1024, delayMs: 20, flushTimeoutMs: 1000 };
  return new BufferedDestination({ ...defaults, ...options, fd: withoutBlocking(options.fd) });
}

/** Lines are collected in pieces of this size. A full one is written at once, by another thread that has to be woken. */
const pieceBytes = 256 * 1024;
const retryMs = 5;
const nothing = Buffer.alloc(0);

class BufferedDestination implements LogDestination {
  readonly #options: Required<DestinationOptions>;
  /** Where lines are collected. They become bytes at once: the garbage collector would copy what waits as texts. */
  #current: Buffer = nothing;
  #used = 0;
  /** Complete pieces that wait until the one before is written. */
  readonly #complete: Buffer[] = [];
  /** A piece that was written, to be used again. */
  #spare: Buffer | null = null;
  /** Bytes in the buffer, those being written included. */
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
    // A character takes three bytes at most. Nearly always that is enough to know.
    const fits = 3 * lines.length <= this.#current.length - this.#used;
    if (!this.#makeRoom(fits ? lines.length : Buffer.byteLength(lines))) this.dropped += countLineEnds(lines);
    else this.#added(this.#current.write(lines, this.#used));
  }

  writeBytes(line: Buffer, length: number): void {
    if (!this.#makeRoom(length)) this.dropped += 1;
    else this.#added(line.copy(this.#current, this.#used, 0, length));
  }

  flush(done: () => void = () => {}): void {
    if (!this.#writing) this.#writeAll();
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

  /** Returns whether so many bytes may be added. */
  #makeRoom(bytes: number): boolean {
    if (this.#length + bytes > this.#options.maxLength) return false;
    if (bytes > this.#current.length - this.#used) this.#beginPiece(bytes);
    return true;
  }

  #added(bytes: number): void {
    this.#used += bytes;
    this.#length += bytes;
    if (this.#writing) return;
    if (this.#complete.length > 0) this.#writeNext();
    else this.#timer ??= setTimeout(this.#writeAll, this.#options.delayMs);
  }

  #beginPiece(bytes: number): void {
    this.#endPiece();
    this.#current = (bytes > pieceBytes ? null : this.#spare) ?? Buffer.allocUnsafeSlow(Math.max(bytes, pieceBytes));
    if (this.#current === this.#spare) this.#spare = null;
  }

  #endPiece(): void {
    if (this.#used > 0) this.#complete.push(this.#current.subarray(0, this.#used));
    this.#current = nothing;
    this.#used = 0;
  }

  readonly #writeAll = (): void => {
    this.#endPiece();
    this.#writeNext();
  };

  #writeNext(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const piece = this.#complete.shift();
    if (piece === undefined) return;
    this.#writing = true;
    this.#writeBytes(piece, () => {
      this.#writing = false;
      this.#length -= piece.length;
      if (piece.buffer.byteLength === pieceBytes) this.#spare = Buffer.from(piece.buffer);
      this.#onWritten();
    });
  }

  #onWritten(): void {
    if (this.#complete.length > 0) this.#writeNext();
    else if (this.#waiting.length > 0 && this.#used > 0) this.#writeAll();
    else if (this.#waiting.length > 0) for (const done of this.#waiting) done();
    else if (this.#used > 0) this.#timer = setTimeout(this.#writeAll, this.#options.delayMs);
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

// Writes to a pipe without blocking. A blocking write to a pipe that nobody reads holds a thread, and the process cannot end
// before that thread: a stalled log collector would keep a gateway from shutting down.

/**
 * Returns a non-blocking descriptor of the same pipe. It opens the pipe again, because setting the flag on the given
 * descriptor would set it for every process that shares it. Returns `fd` itself if it is no pipe, or cannot be opened again
 * (no /proc, another user's).
 */
function withoutBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd;
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    // It may block, which is better than no log.
    return fd;
  }
}
