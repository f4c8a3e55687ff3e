// Reads a socket to the upstream. A plain socket is read without Node's streams, which allocate 64 KiB for each read: here
// the same buffer is read into again, unless the reader keeps its bytes. Bytes that are kept hold at most twice their
// size in memory.
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";

/** Says when the memory of the bytes may be read into again: `read` at once, `kept` never, `lent` after `reclaim`. */
export type OnBytes = (bytes: Buffer) => "read" | "kept" | "lent";

const bufferBytes = 64 * 1024;

/** A rest smaller than this is not read into, so that reads stay large. */
const minBufferBytes = bufferBytes / 2;

export class SocketReader {
  readonly socket: Socket;
  /** It is read into a buffer of ours, not as a stream. */
  readonly #isOwn: boolean;
  #buffer: Uint8Array | null = null;
  #onBytes: OnBytes | null = null;
  /** The buffer that was lent last, if it holds nothing else. */
  #lent: Uint8Array | null = null;
  /** The buffer for the next read. */
  #spare: Uint8Array | null = null;

  private constructor(socket: Socket | ((reader: SocketReader) => Socket)) {
    this.#isOwn = typeof socket === "function";
    this.socket = typeof socket === "function" ? socket(this) : socket;
  }

  /** Opens a connection. Its socket cannot be read as a stream later. */
  static connect(options: TcpNetConnectOpts): SocketReader {
    return new SocketReader((reader) => connect({ ...options, onread: reader.#memory }));
  }

  /** Reads a socket as a stream. */
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

  /** The bytes that were lent are not in use any more. */
  reclaim(): void {
    this.#spare = this.#lent ?? this.#spare;
    this.#lent = null;
  }

  /** The bytes that were lent stay in use: their buffer is not read into again. */
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

/** Small pieces that are kept share one buffer; a buffer for each could take a thousand times its size. */
function behind(memory: Uint8Array, count: number): Buffer | null {
  const left = memory.length - count;
  return left < minBufferBytes ? null : Buffer.from(memory.buffer, memory.byteOffset + count, left);
}
