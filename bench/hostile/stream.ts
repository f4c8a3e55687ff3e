// The usual shape of an attack: some connections that send the same pieces again and again at a rate, and are opened
// again when the gateway closes them.
import { connectionBytes, type Line, type LineOptions, type Sender } from "./attack.ts";

export interface StreamOptions extends LineOptions {
  /** Connections that are open at once; by default 1. */
  readonly connections?: number;
  /** Sent first on every connection, as one request if `preludeRequests` is 1. */
  readonly prelude?: Buffer;
  readonly preludeRequests?: number;
  /** The i-th piece of a connection; null: the connection stays open and sends no more. */
  readonly next: (i: number) => Buffer | null;
  /** Request heads in each piece; by default 0. */
  readonly requests?: number;
  /** Bytes on the wire per second; by default 1,000,000. */
  readonly bytesPerSecond?: number;
  /** Each piece is sent in writes of this many bytes. */
  readonly packetBytes?: number;
  /** A closed connection is replaced by a new one, unless this is false. */
  readonly reconnects?: boolean;
  /** The client closes a connection after this many pieces. */
  readonly closesAfter?: number;
  /** The client closes a connection when this is true of what comes back. */
  readonly leavesOn?: (received: Buffer) => boolean;
}

export const defaultBytesPerSecond = 1_000_000;

/** New connections of all kinds; more would measure the kernel. */
const maxConnectionsPerSecond = 1_000;

interface Slot {
  line: Line | null;
  /** Pieces sent on this connection. */
  sent: number;
  rest: Buffer | null;
}

/** An attack's `send`. */
export function stream(options: StreamOptions): (sender: Sender) => Promise<void> {
  return async (sender) => {
    const length = Math.ceil((options.connections ?? 1) * sender.share);
    const slots = Array.from({ length }, (): Slot => ({ line: null, sent: 0, rest: null }));
    const opening = new Opening();
    let turn = 0;
    await sender.paced(options.bytesPerSecond ?? defaultBytesPerSecond, () => {
      for (let tried = 0; tried < slots.length; tried += 1) {
        const slot = slots[turn % slots.length];
        turn += 1;
        const sent = slot === undefined ? 0 : advance(sender, slot, options, opening);
        if (sent > 0) return sent;
      }
      return 0;
    });
  };
}

/** Returns the bytes on the wire; 0 if this connection can send nothing now. */
function advance(sender: Sender, slot: Slot, options: StreamOptions, opening: Opening): number {
  const { prelude, preludeRequests = 0, requests = 0, packetBytes, reconnects = true, closesAfter } = options;
  if (slot.line?.isClosed && !reconnects) return 0;
  if (slot.line === null || slot.line.isClosed) {
    if (!opening.mayOpen(sender)) return 0;
    const opened = sender.open(options);
    const { leavesOn, reads = true } = options;
    if (leavesOn !== undefined && reads)
      opened.socket.on("data", (data: Buffer) => leavesOn(data) && opened.socket.destroy());
    slot.line = opened;
    slot.sent = 0;
    slot.rest = null;
    return connectionBytes + (prelude === undefined ? 0 : opened.write(prelude, preludeRequests));
  }
  const { line } = slot;
  if (line.isBlocked) return 0;
  if (slot.rest === null) {
    if (slot.sent === closesAfter) {
      line.socket.destroy();
      return 0;
    }
    const piece = options.next(slot.sent);
    if (piece === null) return 0;
    slot.sent += 1;
    if (packetBytes === undefined) return line.write(piece, requests);
    slot.rest = piece;
    sender.counters.requests += requests;
  }
  const end = Math.min(packetBytes ?? slot.rest.length, slot.rest.length);
  const packet = slot.rest.subarray(0, end);
  slot.rest = end === slot.rest.length ? null : slot.rest.subarray(end);
  return line.write(packet);
}

class Opening {
  #opened = 0;
  #sinceMs = performance.now();

  mayOpen(sender: Sender): boolean {
    const nowMs = performance.now();
    if (nowMs - this.#sinceMs > 100) {
      this.#sinceMs = nowMs;
      this.#opened = 0;
    }
    this.#opened += 1;
    return !sender.isOver && this.#opened <= maxConnectionsPerSecond / 10;
  }
}

export const anything = (): boolean => true;

/** The same bytes each time. */
export const again = (bytes: Buffer): (() => Buffer) => {
  return () => bytes;
};
