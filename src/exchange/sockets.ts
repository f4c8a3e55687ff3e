// Reads the sockets of clients without Node's streams: accepted connections are read into one buffer that all of them share,
// without the events and the 64 KiB that streams need for each read. Node reads like that for sockets that it connects
// (`onread`), but offers no way to ask for it on an accepted one: this file sets what `onread` sets, and it alone knows the
// parts of a handle. None of that is documented, so it is tried at each start (`prove-sockets.ts`).
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * Called with bytes that are overwritten by the next read of any socket: what must outlive the call is copied. TLS still
 * delivers what it has decrypted after a pause: at most the records of one read of the TCP connection.
 */
export type OnBytes = (bytes: Buffer) => void;

export interface SharedReads {
  /**
   * Reads the socket into the shared buffer from now on, beginning with what its stream has buffered. "end", "close",
   * "error", pause() and resume() work as before, and there are no "data" events. Returns false if the socket has to be
   * read as a stream: it is of another kind, or closed.
   */
  take(socket: Socket, onBytes: OnBytes): boolean;
  /** A taken socket is a stream again, beginning with a copy of `unread`. It is paused. */
  release(socket: Socket, unread: Buffer): void;
}

const readBytes = 64 * 1024;

/** The parts of a handle that are used. */
export interface SocketHandle {
  reading: boolean;
  readonly writeQueueSize?: number;
  readStop?(): void;
  readStart(): number;
  useUserBuffer(buffer: Uint8Array): void;
  /** Returns 0 if the system has taken all, another number for an error, or a request for the rest, which the handle writes. */
  writeLatin1String(request: null, text: string): number | WriteRequest;
}

interface WriteRequest {
  /** Called with 0 when the system has taken the rest, or with the number of an error. */
  oncomplete?: (status: number) => void;
}

interface SocketParts {
  readonly _handle?: SocketHandle | null;
  /** Set for a taken socket; null after its release. */
  [receiver]?: OnBytes | null;
  [part: symbol]: unknown;
}

const receiver = Symbol("receiver");

const partsOf = (socket: Socket): SocketParts => socket as unknown as SocketParts;

export class SocketReads implements SharedReads {
  readonly memory: Buffer;
  /** The beginning of the memory with the length of the last read: requests mostly have the same length. */
  #bytes: Buffer;
  /** Where a socket has its buffer and its callback. */
  readonly #buffer: symbol;
  readonly #callback: symbol;
  /** Plain sockets with other handles have not been proven to work. */
  readonly #handleKind: unknown;
  /** Called by Node as a method of the socket. */
  readonly #onRead: (this: Socket, count: number) => boolean;

  /** Use `of`. */
  private constructor(buffer: symbol, callback: symbol, handleKind: unknown) {
    this.memory = Buffer.allocUnsafeSlow(readBytes);
    this.#bytes = this.memory;
    this.#buffer = buffer;
    this.#callback = callback;
    this.#handleKind = handleKind;
    const bytesOf = (count: number): Buffer => this.#bytesOf(count);
    this.#onRead = function (count) {
      const onBytes = partsOf(this)[receiver];
      // Node cannot be told to use its own buffers again. False stops reading until the stream asks for more.
      if (onBytes === null || onBytes === undefined) return this.push(copyOf(bytesOf(count)));
      onBytes(bytesOf(count));
      return true;
    };
  }

  /** Makes one for sockets like this one. Returns null if it does not have the parts that are needed. */
  static of(socket: Socket): SocketReads | null {
    const symbols = Object.getOwnPropertySymbols(socket);
    const named = (name: string): symbol | undefined => symbols.find(({ description }) => description === name);
    const [buffer, callback] = [named("kBuffer"), named("kBufferCb")];
    const handle = partsOf(socket)._handle;
    if (buffer === undefined || callback === undefined || typeof handle?.useUserBuffer !== "function") return null;
    return new SocketReads(buffer, callback, handle.constructor);
  }

  take(socket: Socket, onBytes: OnBytes): boolean {
    const parts = partsOf(socket);
    const { _handle: handle } = parts;
    if (handle === null || handle === undefined) return false;
    if (handle.constructor !== this.#handleKind && !isSecure(socket, handle)) return false;
    // Taken once already: a handle keeps its buffer until it is closed.
    if (parts[receiver] !== undefined) return false;
    parts[receiver] = onBytes;
    parts[this.#buffer] = this.memory;
    parts[this.#callback] = this.#onRead;
    handle.useUserBuffer(this.memory);
    if (socket.readableLength > 0) deliverBuffered(socket);
    if (!handle.reading) start(handle);
    return true;
  }

  release(socket: Socket, unread: Buffer): void {
    const parts = partsOf(socket);
    parts[receiver] = null;
    // A socket that reads into its own buffer stops the handle when it is paused; a stream may read on while it is paused.
    const { read, pause, resume } = Duplex.prototype;
    Object.assign(socket, { read, pause, resume });
    const { _handle: handle } = parts;
    if (handle?.reading === false) start(handle);
    socket.pause();
    if (unread.length > 0) socket.unshift(copyOf(unread));
  }

  #bytesOf(count: number): Buffer {
    if (this.#bytes.length !== count) this.#bytes = this.memory.subarray(0, count);
    return this.#bytes;
  }
}

/** Returns a copy that is not in Node's pool: a small piece that is kept would keep a slab of 64 KiB. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

/** Returns null for a socket that is closed, or not yet connected. */
export const handleOf = (socket: Socket): SocketHandle | null =>
  (socket as unknown as { readonly _handle?: SocketHandle | null })._handle ?? null;

/** Returns whether TLS can be read into a buffer here. Node documents that (`onread`) for TLS sockets that it connects. */
function isSecure(socket: Socket, handle: SocketHandle): boolean {
  return "encrypted" in socket && typeof handle.useUserBuffer === "function";
}

function start(handle: SocketHandle): void {
  handle.reading = true;
  handle.readStart();
}

/** Delivers what the stream has buffered: later, because the caller of `take` is not ready for it, but before an "end". */
function deliverBuffered(socket: Socket): void {
  const buffered: Buffer[] = [];
  process.nextTick(() => {
    const onBytes = partsOf(socket)[receiver];
    if (socket.destroyed) return;
    const bytes = Buffer.concat(buffered);
    // Null: it has been released meanwhile.
    if (onBytes === null || onBytes === undefined) socket.unshift(bytes);
    else onBytes(bytes);
  });
  for (;;) {
    const piece: Buffer | null = socket.read();
    if (piece === null) return;
    buffered.push(piece);
  }
}
