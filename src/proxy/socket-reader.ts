// A socket to the upstream and the bytes that come from it. A plain one is read past Node's streams, which take a fresh
// 64 KiB from the system for each read: here it is the same memory, as long as nobody keeps what was in it, and what is
// kept of it pins no more than twice its size.
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";

/** Returns whether it keeps the bytes: then nothing is read over them. */
export type OnBytes = (bytes: Buffer) => boolean;

const bufferBytes = 64 * 1024;

/** Of a piece with less than this left behind it, the rest is given up: reads are to stay large. */
const minBufferBytes = bufferBytes / 2;

export class SocketReader {
  readonly socket: Socket;
  /** It is read into memory of ours. */
  readonly #isOwn: boolean;
  #buffer: Buffer | null = null;
  #onBytes: OnBytes | null = null;

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

  readonly #onData = (bytes: Buffer): void => void this.#onBytes?.(bytes);

  get #memory() {
    return {
      buffer: (): Buffer => {
        this.#buffer ??= Buffer.allocUnsafeSlow(bufferBytes);
        return this.#buffer;
      },
      callback: (count: number, memory: Uint8Array): boolean => {
        const bytes = Buffer.from(memory.buffer, memory.byteOffset, count);
        if (this.#onBytes?.(bytes)) this.#buffer = behind(memory, count);
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
