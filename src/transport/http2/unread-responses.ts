// Resets streams whose response is complete but cannot be sent, because the client does not read it. The gateway keeps
// such a response in memory, and no timeout of the upstream ends it. Node reports progress of a stream only for whole
// pieces (up to 64 KiB), so all streams of a connection count as read while enough bytes leave on the connection.
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Http2ResetReason } from "../../core/http2-bounds.ts";

const checkMs = 2_000;
/** Checks without progress. Ten seconds are enough for a client that loses its network for a moment. */
const maxChecks = 5;
/** If this much leaves between two checks, the connection is read: 4 KiB a second, slower than any line in use. */
const readBytes = 8 * 1024;

interface Unread {
  /** Bytes that had not been sent. */
  readonly length: number;
  readonly checks: number;
}

export class UnreadResponses {
  readonly #open: ReadonlyMap<ServerHttp2Stream, unknown>;
  readonly #isInHurry: () => boolean;
  readonly #sentBytes: () => number;
  readonly #onReset: (reason: Http2ResetReason) => void;
  #sentBefore = 0;
  #unread = new Map<ServerHttp2Stream, Unread>();
  #timer: NodeJS.Timeout | null = null;

  /** `open` holds the open streams at any time. While `isInHurry`, one check without progress is enough. */
  constructor(
    open: ReadonlyMap<ServerHttp2Stream, unknown>,
    isInHurry: () => boolean,
    sentBytes: () => number,
    onReset: (reason: Http2ResetReason) => void,
  ) {
    this.#open = open;
    this.#isInHurry = isInHurry;
    this.#sentBytes = sentBytes;
    this.#onReset = onReset;
  }

  /** Call it when a stream has been opened. Checks regularly as long as a stream is open. */
  watch(): void {
    this.#timer ??= setTimeout(() => this.#check(), checkMs).unref();
  }

  /** Stops the checks. Call it when the connection is closed, because the timer would keep the connection in memory. */
  stop(): void {
    clearTimeout(this.#timer ?? undefined);
  }

  #check(): void {
    this.#timer = null;
    const before = this.#unread;
    this.#unread = new Map();
    const sent = this.#sentBytes();
    const isRead = sent - this.#sentBefore >= readBytes;
    this.#sentBefore = sent;
    const allowed = this.#isInHurry() ? 1 : maxChecks;
    for (const stream of [...this.#open.keys()]) {
      if (!stream.writableEnded) continue;
      const { length, checks } = before.get(stream) ?? notSeen;
      const isStuck = !isRead && length === stream.writableLength;
      const unread = { length: stream.writableLength, checks: isStuck ? checks + 1 : 0 };
      if (unread.checks < allowed) this.#unread.set(stream, unread);
      else {
        this.#onReset("unread");
        stream.close(constants.NGHTTP2_CANCEL);
      }
    }
    if (this.#open.size > 0) this.watch();
  }
}

const notSeen: Unread = { length: -1, checks: 0 };
