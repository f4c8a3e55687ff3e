// A socket to the upstream and the bytes that come from it. A plain one is read past Node's streams, which take a fresh
// 64 KiB from the system for each read: here it is the same memory, as long as nobody keeps what was in it, and what is
// kept of it pins no more than twice its size.
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";

/**
 * Returns what becomes of the bytes: `read` ones are read over, `kept` ones never, `lent` ones when they have been
 * reclaimed.
 */
export type OnBytes = (bytes: Buffer) => "read" | "kept" | "lent";

const bufferBytes = 64 * 1024;

/** Of a piece with less than this left behind it, the rest is given up: reads are to stay large. */
const minBufferBytes = bufferBytes / 2;

export class SocketReader {
  readonly socket: Socket;
  /** It is read into memory of ours. */
  readonly #isOwn: boolean;
  #buffer: Uint8Array | null = null;
  #onBytes: OnBytes | null = null;
  /** What was lent last, if nothing else is in its memory. */
  #lent: Uint8Array | null = null;
  /** To be read into next. */
  #spare: Uint8Array | null = null;

  private constructor(socket: Socket | ((reader: SocketReader) => Socket)) {
    this.#isOwn = typeof socket === "function";
    this.socket = typeof socket === "function" ? socket(this) : socket;
  }

  /** Opens a connection. It cannot be handed over to anybody who reads it as a stream. */
  static connect(options: TcpNetConnectOpts): SocketReader {
    return new SocketReader((reader) => connect({ ...options, onread: reader.#memory }));
  }

  /** Of a socket that is read as a stream. */
  static over(socket: Socket): SocketReader {
    return new SocketReader(socket);
  }

  start(onBytes: OnBytes): void {
    this.#onBytes = onBytes;
    if (this.#isOwn) this.socket.resume();
    else this.socket.on("data", this.#onData);
  }

  stop(): void {
    this.#onBytes = null;
    this.socket.off("data", this.#onData);
  }

  /** Nobody uses any more what was lent since it was forgotten last. */
  reclaim(): void {
    this.#spare = this.#lent ?? this.#spare;
    this.#lent = null;
  }

  /** What was lent is not given back. */
  forget(): void {
    this.#lent = null;
    this.#spare = null;
  }

  readonly #onData = (bytes: Buffer): void => void this.#onBytes?.(bytes);

  get #memory() {
    return {
      buffer: (): Uint8Array => {
        if (this.#buffer !== null) return this.#buffer;
        this.#buffer = this.#spare ?? Buffer.allocUnsafeSlow(bufferBytes);
        this.#spare = null;
        return this.#buffer;
      },
      callback: (count: number, memory: Uint8Array): boolean => {
        const bytes = Buffer.from(memory.buffer, memory.byteOffset, count);
        const fate = this.#onBytes?.(bytes) ?? "read";
        if (fate === "read") return true;
        this.#buffer = behind(memory, count);
        this.#lent = fate === "lent" && this.#buffer === null ? memory : null;
        return true;
      },
    };
  }
}

/** Small pieces that wait for a slow reader share one buffer: each with one of its own would take a thousand times its size. */
function behind(memory: Uint8Array, count: number): Buffer | null {
  const left = memory.length - count;
  return left < minBufferBytes ? null : Buffer.from(memory.buffer, memory.byteOffset + count, left);
}
