// One socket to the upstream: how it is opened within a timeout, plain or over TLS; how it is read without Node's
// streams; and how long it is kept.
import { connect, type OnReadOpts, type Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { methodsWithBody } from "../core/method.ts";
import type { KeepAliveMs } from "../core/upstream.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { readAfterFailedWrite } from "./read-ends.ts";
import { TlsRefused, UpstreamFailure } from "./upstream-error.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

interface OpenSocketOptions {
  readonly host: string;
  readonly port: number;
  /** Null: plain TCP. */
  readonly tls: UpstreamTls | null;
  /** For TCP and the TLS handshake together. */
  readonly timeoutMs: number;
  /** The socket is half-open and a stream, as a tunnel needs it. */
  readonly isStream?: boolean;
  /** For connections that are read without streams. */
  readonly buffers?: ReadBuffers;
}

/** A process that stands still, however long, loses one of these, and has the others to see what has arrived meanwhile. */
const timeoutSteps = 4;

type Ready = (error: Error | null, reader: SocketReader | null) => void;

/** Calls `ready` once. Returns a function that cancels the opening; `ready` is not called after it. */
export function openSocket(options: OpenSocketOptions, ready: Ready): () => void {
  const { tls, timeoutMs, isStream = false, buffers } = options;
  const open = (onread?: OnReadOpts): Socket => begin(options, onread);
  const isPlain = tls === null;
  const reader = isStream ? SocketReader.over(open(), isPlain) : SocketReader.open(open, isPlain, buffers);
  const { socket } = reader;
  const opened = isPlain ? "connect" : "secureConnect";
  let stepsLeft = timeoutSteps;
  let isOver = false;
  const stop = (): void => {
    isOver = true;
    clearTimeout(timer);
    socket.off(opened, succeed).off("error", fail);
  };
  const cancel = (): void => {
    stop();
    socket.on("error", ignoreError).destroy();
  };
  const fail = (error: Error): void => {
    cancel();
    const isRefused = "authorizationError" in socket && socket.authorizationError;
    ready(isRefused ? new TlsRefused(error) : error, null);
  };
  const succeed = (): void => {
    stop();
    ready(null, reader);
  };
  const giveUp = (): void => {
    if (!isOver) fail(new UpstreamFailure("UPSTREAM_CONNECT_TIMEOUT"));
  };
  const timer = setTimeout(
    () => {
      stepsLeft -= 1;
      if (stepsLeft > 0) timer.refresh();
      // What has arrived by now is read before.
      else setImmediate(giveUp);
    },
    Math.ceil(timeoutMs / timeoutSteps),
  );
  socket.once(opened, succeed).once("error", fail);
  return cancel;
}

function begin({ host, port, tls, isStream = false }: OpenSocketOptions, onread?: OnReadOpts): Socket {
  const address = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
  const how = { ...address, allowHalfOpen: isStream, ...(onread === undefined ? {} : { onread }) };
  return tls === null ? connect(how) : tls.connect(how);
}

/** Says when the memory of the bytes may be read into again: `read` at once, `kept` never, `lent` after `reclaim`. */
export type OnUpstreamBytes = (bytes: Buffer) => "read" | "kept" | "lent";

const bufferBytes = 64 * 1024;

/** If less than this is left behind bytes that are kept, the next read gets another buffer, so that reads stay large. */
const minBufferBytes = bufferBytes / 2;

/**
 * Reads a socket to the upstream, plain or over TLS, without Node's streams, which allocate 64 KiB for each read. A
 * connection reads into its own buffer again and again, unless the reader keeps the bytes, and borrows a larger buffer
 * while there is much to read. Bytes that are kept hold at most twice their size in memory.
 */
export class SocketReader {
  readonly socket: Socket;
  /** It is a connection without TLS. */
  readonly isPlain: boolean;
  /** Whether what has not been read yet may answer what was written; see `readAfterFailedWrite`. */
  mayHaveAnswer: () => boolean = () => false;
  readonly #isStream: boolean;
  readonly #buffers: ReadBuffers;
  #buffer: Uint8Array | null = null;
  /** The buffer of its own while a large one is in use. */
  #small: Uint8Array | null = null;
  #onBytes: OnUpstreamBytes | null = null;
  /** The beginning of the buffer with the length of the last read: many reads have the same length. */
  #bytes: Buffer = nothing;
  /** The buffer that was lent last, if it holds nothing else. */
  #lent: Uint8Array | null = null;
  /** The buffer for the next read. */
  #spare: Uint8Array | null = null;

  private constructor(socket: Socket | ((onread: OnReadOpts) => Socket), isPlain: boolean, buffers: ReadBuffers) {
    this.isPlain = isPlain;
    this.#isStream = typeof socket !== "function";
    this.#buffers = buffers;
    this.socket = typeof socket === "function" ? socket(this.#memory()) : socket;
    if (!this.#isStream) readAfterFailedWrite(this.socket, isPlain, () => this.mayHaveAnswer());
  }

  /** Calls `open`, which opens a connection. Its socket cannot be read as a stream later. */
  static open(open: (onread: OnReadOpts) => Socket, isPlain: boolean, buffers = new ReadBuffers()): SocketReader {
    return new SocketReader(open, isPlain, buffers);
  }

  /** Reads a socket as a stream. */
  static over(socket: Socket, isPlain: boolean): SocketReader {
    return new SocketReader(socket, isPlain, new ReadBuffers());
  }

  start(onBytes: OnUpstreamBytes): void {
    this.#onBytes = onBytes;
    if (this.#isStream) this.socket.on("data", this.#onData);
    else this.socket.resume();
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
    const spare = this.#takeSpare();
    if (spare?.length === largeBytes) this.#buffers.give(spare);
  }

  readonly #onData = (bytes: Buffer): void => void this.#onBytes?.(bytes);

  #memory(): OnReadOpts {
    return {
      buffer: (): Uint8Array => {
        if (this.#buffer !== null) return this.#buffer;
        this.#buffer = this.#takeSpare() ?? this.#takeSmall() ?? Buffer.allocUnsafeSlow(bufferBytes);
        return this.#buffer;
      },
      callback: (count: number, memory: Uint8Array): boolean => {
        const fate = this.#onBytes?.(this.#bytesOf(memory, count)) ?? "read";
        if (fate === "read") {
          this.#resize(memory, count);
          return true;
        }
        this.#buffer = behind(memory, count);
        this.#lent = fate === "lent" && this.#buffer === null ? memory : null;
        return true;
      },
    };
  }

  #bytesOf(memory: Uint8Array, count: number): Buffer {
    const { buffer, byteOffset } = memory;
    const last = this.#bytes;
    if (last.length === count && last.buffer === buffer && last.byteOffset === byteOffset) return last;
    this.#bytes = Buffer.from(buffer, byteOffset, count);
    return this.#bytes;
  }

  /** Replaces a buffer that a read has filled by a large one, and a large one that is not half filled by the own one. */
  #resize(memory: Uint8Array, count: number): void {
    const isLarge = memory.length === largeBytes;
    if (!isLarge && count === memory.length && this.#small === null) {
      this.#small = memory;
      this.#buffer = this.#takeSpare() ?? this.#buffers.take();
    } else if (isLarge && count < largeBytes / 2 && this.#small !== null) {
      this.#bytes = nothing;
      this.#buffers.give(memory);
      this.#buffer = this.#takeSmall();
    }
  }

  #takeSpare(): Uint8Array | null {
    const spare = this.#spare;
    this.#spare = null;
    return spare;
  }

  #takeSmall(): Uint8Array | null {
    const small = this.#small;
    this.#small = null;
    return small;
  }
}

const nothing = Buffer.alloc(0);

/** Small pieces that are kept share one buffer; a buffer for each could take a thousand times its size. */
function behind(memory: Uint8Array, count: number): Buffer | null {
  const left = memory.length - count;
  return left < minBufferBytes ? null : Buffer.from(memory.buffer, memory.byteOffset + count, left);
}

/** Twice the size that each connection has of its own. Still larger ones save little, and a slow client keeps one. */
export const largeBytes = 128 * 1024;

const maxSpare = 16;

/**
 * The large buffers of the connections to an upstream, which are in use only while a large body is read: a few of them
 * are used again and again.
 */
export class ReadBuffers {
  readonly #spare: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(largeBytes);
  }

  /** Takes a buffer back whose bytes nobody uses any more. */
  give(buffer: Uint8Array): void {
    if (this.#spare.length < maxSpare) this.#spare.push(buffer);
  }
}

/**
 * How long a connection to the upstream is kept. An idle one is closed before the upstream closes it, so that no
 * request is sent on a connection that is being closed. A connection is not used again after a request that a server
 * may misread. Servers of Node and Apache close after five seconds.
 */
const defaultIdleMs = 4_000;
/** The bound on what an upstream names in Keep-Alive: timeout=, unless `upstream.keepAlive` says another. */
const maxIdleMs = 60_000;

/**
 * `saidSeconds`: how long the upstream says that it keeps an idle connection; null if it does not. Of that, one second is
 * left for the time on the network.
 */
export function idleMsOf(keepAlive: KeepAliveMs = "auto", saidSeconds: number | null = null): number {
  if (saidSeconds === null) return keepAlive === "auto" ? defaultIdleMs : keepAlive;
  return Math.min(keepAlive === "auto" ? maxIdleMs : keepAlive, Math.max(0, saidSeconds * 1000 - 1000));
}

/**
 * Returns how long a connection may have been idle for a request that cannot be repeated, which is lost if the upstream
 * closes the connection at that moment. No usual server closes one within a second, whatever time it is set to.
 */
export function freshMsOf(keepAlive: KeepAliveMs): number {
  return Math.min(1_000, idleMsOf(keepAlive));
}

/**
 * Returns whether a request is the last on its connection. A server that does not expect a body, on a GET for example, may
 * read it as the next request, which was never checked. A server that sends a body in response to a HEAD would have it read
 * as the next response. A server that logs in the connection would answer the next request as one of the same user. If the
 * connection is closed, none of this can happen.
 */
export function endsConnection({ method, hasBody, verdict }: Exchange): boolean {
  const { logsInConnection } = verdict.parsed.message;
  return method === "HEAD" || (hasBody && !methodsWithBody.has(method)) || logsInConnection;
}
