// Connects a client's socket to Node's HTTP/2 session, and lets a FrameGuard read each frame before nghttp2 does. It
// has only those members of a stream that performServerHandshake needs. What is read is passed on at once, unless the
// session has paused; what is written goes to the socket. A Duplex would cost 5 µs more for each request.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { ignoreError } from "../core/failure.ts";
import type { FrameBudget } from "../core/frame-budget.ts";
import type { Http2CloseReason } from "../core/http2-bounds.ts";
import { FrameGuard } from "./http2-frame-guard.ts";

/** With less than this unsent, a write counts as sent at once, so that the session does not wait for the event loop. */
const maxUnsentBytes = 16 * 1024;

export class GuardedSocket extends EventEmitter {
  readonly guard: FrameGuard;
  readable = true;
  writable = true;
  /** Given to the socket so far. It takes more only when the peer reads. */
  sentBytes = 0;
  readonly #socket: Socket;
  readonly #onStop: (reason: Http2CloseReason) => void;
  #isPaused = false;
  /**
   * Bytes that were read but not passed on: the session has paused, or they wait for the next turn of the event loop.
   */
  #held: Buffer[] = [];
  #isContinuing = false;

  /** `onStop`: the connection has to be closed. Nothing is read from it any more. */
  constructor(socket: Socket, budget: FrameBudget, onStop: (reason: Http2CloseReason) => void) {
    super();
    this.#socket = socket;
    this.#onStop = onStop;
    this.guard = new FrameGuard(budget, (bytes) => void this.emit("data", bytes));
    socket.on("data", (bytes: Buffer) => this.#onData(bytes));
    socket.on("end", () => this.emit("end"));
    socket.on("error", (error) => this.emit("error", error));
    socket.on("close", () => this.#onClose());
  }

  /** For Node's types. The session uses no other members of a Duplex than those below. */
  get asDuplex(): Duplex {
    return this as unknown as Duplex;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#held.length > 0) this.#continueLater();
  }

  cork(): void {
    this.#socket.cork();
  }

  uncork(): void {
    this.#socket.uncork();
  }

  write(bytes: Buffer, onSent: (error?: Error | null) => void): boolean {
    const socket = this.#socket;
    if (socket.writableEnded) {
      onSent();
      return true;
    }
    this.sentBytes += bytes.length;
    this.guard.onSent(bytes.length);
    if (socket.writableLength + bytes.length > maxUnsentBytes) return socket.write(bytes, onSent);
    socket.write(bytes);
    onSent();
    return true;
  }

  /**
   * Calls `onEnd` at once. Node asserts that the session writes nothing between this call and `onEnd`, but its streams
   * may still reset themselves while a client does not read. Those writes are dropped.
   */
  end(onEnd: () => void): void {
    this.#socket.end();
    onEnd();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #onData(bytes: Buffer): void {
    if (this.guard.stopped !== null) return;
    if (this.#held.length > 0 || this.#isPaused) this.#hold(bytes);
    else this.#read(bytes);
  }

  #read(bytes: Buffer): void {
    const { guard } = this;
    const at = guard.read(bytes, 0);
    if (guard.stopped !== null) {
      this.#held = [];
      this.#socket.pause();
      this.#onStop(guard.stopped);
    } else if (at < bytes.length) {
      this.#held.unshift(bytes.subarray(at));
      this.#socket.pause();
      this.#continueLater();
    }
  }

  #hold(bytes: Buffer): void {
    this.#held.push(bytes);
    this.#socket.pause();
  }

  #continueLater(): void {
    if (this.#isContinuing) return;
    this.#isContinuing = true;
    setImmediate(() => {
      this.#isContinuing = false;
      this.#continue();
    });
  }

  #continue(): void {
    const next = this.#isPaused ? undefined : this.#held.shift();
    if (next !== undefined) this.#read(next);
    if (this.#isPaused || this.guard.stopped !== null) return;
    if (this.#held.length > 0) this.#continueLater();
    else this.#socket.resume();
  }

  #onClose(): void {
    this.readable = false;
    this.writable = false;
    this.#held = [];
    this.emit("close");
    // Until the client acknowledges SETTINGS, Node keeps a callback for that. Through these listeners, the callback refers
    // to the session's error, and the error refers to the session. Without an ACK, nothing of it would ever be collected.
    // The last listener is for a late write that fails.
    this.removeAllListeners().on("error", ignoreError);
  }
}
