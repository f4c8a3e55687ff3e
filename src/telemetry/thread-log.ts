// The log of a worker thread. The thread collects whole lines for a moment and posts them as one message; the main thread
// writes them to its own destination and acknowledges them. What is not acknowledged is bounded: beyond the bound lines
// are dropped and counted. A request costs no message of its own.
import type { MessagePort } from "node:worker_threads";
import { shareOf } from "../core/settings.ts";
import type { LogDestination } from "./destination.ts";

interface ThreadDestinationOptions {
  /** How many threads share the memory for lines that are not acknowledged. */
  readonly workers?: number;
  /** Bound of what is not acknowledged, in characters. Default: the share of 4 MiB, at least 256 KiB. */
  readonly maxLength?: number;
  /** How long a line waits for others. */
  readonly delayMs?: number;
  readonly flushTimeoutMs?: number;
}

/** In the worker thread. The port keeps no thread alive. Lines that wait do, so that a thread posts them before it ends. */
export function threadDestination(port: MessagePort, options: ThreadDestinationOptions = {}): LogDestination {
  const { workers = 1, delayMs = 20, flushTimeoutMs = 1000 } = options;
  const { maxLength = Math.max(256 * 1024, shareOf(4 * 1024 * 1024, workers)) } = options;
  return new ThreadDestination(port, { maxLength, delayMs, flushTimeoutMs });
}

/**
 * In the main thread: writes what a thread posts, in its order. Resolves when the thread has closed its end of the port,
 * as by its own end, and everything that it had posted is in the destination.
 */
export function writeThreadLines(port: MessagePort, destination: Pick<LogDestination, "write">): Promise<void> {
  port.on("message", (lines: string) => {
    destination.write(lines);
    port.postMessage(lines.length);
  });
  return new Promise((resolve) => void port.once("close", resolve));
}

const postAtOnceLength = 64 * 1024;

class ThreadDestination implements LogDestination {
  readonly #port: MessagePort;
  readonly #options: Required<Omit<ThreadDestinationOptions, "workers">>;
  #lines: string[] = [];
  /** Characters that are collected and not posted. */
  #collected = 0;
  /** Running totals of characters. */
  #posted = 0;
  #acknowledged = 0;
  #timer: NodeJS.Timeout | null = null;
  #waiting: { readonly posted: number; readonly done: () => void }[] = [];
  dropped = 0;

  constructor(port: MessagePort, options: Required<Omit<ThreadDestinationOptions, "workers">>) {
    this.#port = port;
    this.#options = options;
    port.on("message", (length: number) => this.#acknowledge(length));
    port.unref();
  }

  write(line: string): void {
    const held = this.#collected + this.#posted - this.#acknowledged;
    if (held + line.length > this.#options.maxLength) {
      this.dropped += 1;
      return;
    }
    this.#lines.push(line);
    this.#collected += line.length;
    if (this.#collected >= postAtOnceLength) this.#post();
    else this.#timer ??= setTimeout(() => this.#post(), this.#options.delayMs);
  }

  /** Done when the main thread has all lines. */
  flush(done: () => void = () => {}): void {
    this.#post();
    if (this.#acknowledged === this.#posted) {
      done();
      return;
    }
    const waiting = { posted: this.#posted, done: () => {} };
    const timer = setTimeout(() => waiting.done(), this.#options.flushTimeoutMs);
    waiting.done = () => {
      clearTimeout(timer);
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      done();
    };
    this.#waiting.push(waiting);
  }

  #post(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#lines.length === 0) return;
    this.#port.postMessage(this.#lines.join(""));
    this.#posted += this.#collected;
    this.#lines = [];
    this.#collected = 0;
  }

  #acknowledge(length: number): void {
    this.#acknowledged += length;
    for (const { posted, done } of this.#waiting) if (posted <= this.#acknowledged) done();
  }
}
