// Reads and writes the sockets of clients without Node's streams: accepted connections are read into one buffer that all of
// them share, without the events and the 64 KiB that streams need for each read; texts go straight to the handle, and
// messages are put together in one buffer. Node reads like that for sockets that it connects (`onread`), but offers no way to
// ask for it on an accepted one: this file sets what `onread` sets, and is the only one that knows it. None of that is
// documented, so it is tried at each start.
import { connect, createServer, type NetConnectOpts, type Server, type ServerOpts, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { getSystemErrorName } from "node:util";
import { ignoreError } from "../core/failure.ts";

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
interface SocketHandle {
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

// When texts and messages are written: at once or at the end of a batch of events.

export interface DeferredWriter {
  /** Writes what was deferred. The socket may be closed by now. */
  writeDeferred(): void;
}

/** A batch is large from so many writes on, and small again at `fewWrites`. In between nothing changes. */
export const manyWrites = 8;
const fewWrites = 4;

/** While batches are small, only one batch in so many writes is counted, because a `setImmediate` costs. */
export const writesBetweenCounts = 64;

export class DeferredWrites {
  /** In the order in which they were deferred. */
  #writers: DeferredWriter[] = [];
  /** Is emptied, to be used for the next batch. */
  #written: DeferredWriter[] = [];
  #areBatchesLarge = false;
  #isCounting = false;
  /** In the current batch while it is counted, otherwise since the last one that was. */
  #writes = 0;

  /** Lets the writer write now or at the end of the batch. */
  defer(writer: DeferredWriter): void {
    this.#writes += 1;
    if (!this.#areBatchesLarge) {
      if (this.#writes >= writesBetweenCounts) this.#count();
      writer.writeDeferred();
      return;
    }
    this.#count();
    this.#writers.push(writer);
  }

  /** Counts the writes of the current batch from this one on. */
  #count(): void {
    if (this.#isCounting) return;
    this.#isCounting = true;
    this.#writes = 1;
    setImmediate(this.#onBatchEnd);
  }

  readonly #onBatchEnd = (): void => {
    this.#areBatchesLarge = this.#writes > (this.#areBatchesLarge ? fewWrites : manyWrites - 1);
    this.#isCounting = false;
    this.#writes = 0;
    // What is deferred meanwhile belongs to the next batch.
    const writers = this.#writers;
    this.#writers = this.#written;
    for (const writer of writers) writer.writeDeferred();
    writers.length = 0;
    this.#written = writers;
  };
}

/** Returns null for a socket that is closed, or not yet connected. */
export const handleOf = (socket: Socket): SocketHandle | null =>
  (socket as unknown as { readonly _handle?: SocketHandle | null })._handle ?? null;

/**
 * Writes texts to TCP sockets without Node's streams, whose bookkeeping for a write takes 5 % of the time of a proxied
 * request. The handle of a socket passes a text to the system immediately, and keeps the part that the system does not
 * take. `openSharedReads` tries it at each start, and until then texts are written by streams.
 */
export class TextWrites {
  /** Null: none has been proven to work. */
  #handleKind: unknown = null;

  /** From now on, texts are written to handles of this kind without streams. */
  useHandles(kind: unknown): void {
    this.#handleKind = kind;
  }

  /**
   * Writes a text; one character is one byte. Returns whether the system has taken all of it. If not, the caller must write
   * an empty text to the stream: that write completes when this text has been taken, and fails if this text failed unnoticed.
   * The stream may write other things before and after it.
   */
  write(socket: Socket, text: string): boolean {
    const handle = handleOf(socket);
    // What the stream has not written yet comes first.
    if (handle === null || handle.constructor !== this.#handleKind || socket.writableLength > 0) {
      socket.write(text, "latin1");
      return socket.writableLength === 0 && !socket.destroyed;
    }
    const result = handle.writeLatin1String(null, text);
    if (result === 0) return true;
    if (typeof result === "number") socket.destroy(writeError(result));
    else {
      result.oncomplete = (status) => {
        if (status < 0) socket.destroy(writeError(status));
      };
    }
    return false;
  }
}

/**
 * Writes two texts, the second one without the stream. Returns the kind of the socket's handle, or null if it does not take
 * texts in this way; then the stream has written both. Other versions of Node give the handle an object with a text, and end
 * the process if there is none, so this looks first at how the stream writes.
 */
export function tryTexts(socket: Socket, first: string, second: string): unknown {
  const handle = handleOf(socket);
  if (handle === null || !streamGivesTextAlone(socket, handle, first)) {
    socket.write(second, "latin1");
    return null;
  }
  const writes = new TextWrites();
  writes.useHandles(handle.constructor);
  return writes.write(socket, second) ? handle.constructor : null;
}

function streamGivesTextAlone(socket: Socket, handle: SocketHandle, text: string): boolean {
  const { writeLatin1String } = handle;
  let isAlone = false;
  Object.assign(handle, {
    writeLatin1String(request: unknown, ...rest: [text: string]) {
      isAlone = request === null;
      return Reflect.apply(writeLatin1String, handle, [request, ...rest]);
    },
  });
  socket.write(text, "latin1");
  Object.assign(handle, { writeLatin1String });
  return isAlone;
}

/** Like the errors of Node's streams. */
function writeError(status: number): Error {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`write ${code}`), { errno: status, code, syscall: "write" });
}

/** A message to a slow reader keeps its buffer. */
const bufferBytes = 32 * 1024;

/**
 * A complete body of a request up to this length is copied when it is sent upstream. The bytes of a longer one have to stay
 * as they are, because the socket may keep them.
 */
export const maxCopiedBytes = 8 * 1024;

/** Room for bytes that the caller overwrites afterwards (pieces of up to 64 KiB), and for a head of the gateway before them. */
const maxPartBytes = 96 * 1024;

/**
 * Writes messages and parts of them. A short one is put together in one buffer, which is reused for every message: a
 * list of pieces takes longer to write, and if head and body were one text, the body would be copied twice.
 */
export class WriteBuffer {
  #buffer: Buffer | null = null;
  #partBuffer: Buffer | null = null;

  /**
   * Writes a message with all of its body; one character of the head is one byte. `isPlain`: the socket has no TLS, which
   * would keep the bytes of the buffer.
   */
  writeMessage(socket: Socket, head: string, body: Buffer, isPlain: boolean): void {
    if (body.length > maxCopiedBytes) {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body);
      socket.uncork();
    } else if (isPlain && head.length + body.length <= bufferBytes && socket.writableLength === 0) {
      this.#writeCopy(socket, head, body);
    } else {
      socket.write(head + body.toString("latin1"), "latin1");
    }
  }

  /**
   * Writes a part of a message. The bytes may be overwritten afterwards, unless there are more than `maxPartBytes` in all.
   * Returns whether more may be written before the socket has drained.
   */
  writePart(socket: Socket, before: string, bytes: Buffer, after: string, isPlain: boolean): boolean {
    const length = before.length + bytes.length + after.length;
    if (length > maxPartBytes) {
      socket.cork();
      if (before !== "") socket.write(before, "latin1");
      socket.write(bytes);
      if (after !== "") socket.write(after, "latin1");
      socket.uncork();
      return !socket.writableNeedDrain;
    }
    const isShared = isPlain && socket.writableLength === 0;
    const buffer = isShared
      ? (this.#partBuffer ?? Buffer.allocUnsafeSlow(maxPartBytes))
      : Buffer.allocUnsafeSlow(length);
    buffer.write(before, 0, "latin1");
    buffer.set(bytes, before.length);
    buffer.write(after, before.length + bytes.length, "latin1");
    socket.write(buffer.subarray(0, length));
    const isTaken = socket.writableLength === 0;
    if (isShared) this.#partBuffer = isTaken ? buffer : null;
    return isTaken || !socket.writableNeedDrain;
  }

  #writeCopy(socket: Socket, head: string, body: Buffer): void {
    this.#buffer ??= Buffer.allocUnsafeSlow(bufferBytes);
    this.#buffer.write(head, 0, "latin1");
    this.#buffer.set(body, head.length);
    socket.write(this.#buffer.subarray(0, head.length + body.length));
    // Otherwise the system has copied the bytes.
    if (socket.writableLength > 0) this.#buffer = null;
  }
}

/** What opens the connections of the proof. A test replaces it by a Node of another kind. */
export interface Net {
  readonly createServer: (options: ServerOpts) => Server;
  readonly connect: (options: NetConnectOpts) => Socket;
}

type ProvenReads =
  /** `textHandles`: the kind of handle that texts can be written to; null: none. */
  | { readonly reads: SocketReads; readonly textHandles: unknown; readonly reason: null }
  /** Connections have to be read as streams. */
  | { readonly reads: null; readonly reason: string };

/** Only a Node that never delivers the bytes takes so long. */
const proofTimeoutMs = 2_000;

/**
 * Tries at the start whether accepted connections can be read into one buffer, and whether texts can be written without
 * streams, because both depend on parts of Node that are not documented. It does not try TLS, which relies only on what
 * plain sockets show and on what Node documents; the tests try that. It opens two connections to its own port, which
 * takes a few milliseconds: one is paused, resumed and released while bytes arrive, the other is half-closed by its
 * client. Both get an answer. Never rejects.
 */
export async function openSharedReads(
  net: Net = { createServer, connect },
  timeoutMs = proofTimeoutMs,
): Promise<ProvenReads> {
  const stage = new Stage(net, timeoutMs);
  try {
    const reads = await stage.prove();
    return { reads, textHandles: stage.textHandles, reason: null };
  } catch (error) {
    return { reads: null, reason: error instanceof Error ? error.message : String(error) };
  } finally {
    stage.close();
  }
}

class Stage {
  readonly #net: Net;
  readonly #server: Server;
  readonly #sockets: Socket[] = [];
  readonly #failed = Promise.withResolvers<never>();
  readonly #timer: NodeJS.Timeout;
  textHandles: unknown = null;

  constructor(net: Net, timeoutMs: number) {
    this.#net = net;
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true });
    this.#timer = setTimeout(() => this.#fail("the bytes of a connection did not arrive"), timeoutMs);
    this.#failed.promise.catch(ignoreError);
  }

  async prove(): Promise<SocketReads> {
    return Promise.race([this.#failed.promise, this.#run()]);
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  async #run(): Promise<SocketReads> {
    const listening = Promise.withResolvers<void>();
    this.#server.once("error", listening.reject).listen(0, "127.0.0.1", listening.resolve);
    await listening.promise;
    const first = await this.#connect();
    const reads = SocketReads.of(first.accepted);
    if (reads === null) throw new Error("Node's sockets have other parts");
    const second = await this.#connect();
    await Promise.all([this.#proveRelease(reads, first), this.#proveEnd(reads, second)]);
    return reads;
  }

  async #connect(): Promise<SocketPair> {
    const { port } = this.#server.address() as { port: number };
    const accepting = Promise.withResolvers<Socket>();
    this.#server.once("connection", accepting.resolve);
    const client = this.#net.connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    this.#keep(client);
    const accepted = await accepting.promise;
    this.#keep(accepted);
    return { client, accepted };
  }

  #keep(socket: Socket): void {
    this.#sockets.push(socket);
    socket.on("error", ({ message }) => this.#fail(message));
  }

  /** Pause and resume, then the release with unread bytes, further bytes for the stream, and a half-closed end. */
  async #proveRelease(reads: SocketReads, { client, accepted }: SocketPair): Promise<void> {
    let taken = "";
    const isTaken = reads.take(accepted, (bytes) => {
      this.#expect(bytes.buffer === reads.memory.buffer, "the bytes are in another buffer");
      taken += bytes.toString("latin1");
      if (taken === "one,") {
        accepted.pause();
        client.write("two,");
        twoTurnsLater(() => {
          this.#expect(taken === "one,", "a paused connection is read");
          accepted.resume();
        });
      } else {
        this.#expect(taken === "one,two,", "other bytes arrive than were sent");
        reads.release(accepted, bytes.subarray(1));
        // Overwrites what is not copied.
        client.write("three");
        accepted.resume();
      }
    });
    this.#expect(isTaken, "an accepted connection has another kind of handle");
    client.write("one,");
    const streamed = await this.#stream(accepted, "wo,three", () => client.end());
    this.#expect(streamed === "wo,three", "the stream has other bytes than were unread and sent");
    this.#expect(accepted.bytesRead === "one,two,three".length, "the bytes that are read are not counted");
    await this.#answer({ client, accepted });
  }

  /** An end that follows the bytes, without a release. */
  async #proveEnd(reads: SocketReads, { client, accepted }: SocketPair): Promise<void> {
    let taken = "";
    const ended = Promise.withResolvers<void>();
    reads.take(accepted, (bytes) => {
      taken += bytes.toString("latin1");
    });
    accepted.once("end", ended.resolve);
    client.end("one");
    await ended.promise;
    this.#expect(taken === "one", "bytes before an end are lost");
    await this.#answer({ client, accepted });
  }

  /** Resolves with what the stream has read when it ends. */
  async #stream(accepted: Socket, expected: string, onComplete: () => void): Promise<string> {
    let streamed = "";
    const ended = Promise.withResolvers<void>();
    accepted.on("data", (bytes: Buffer) => {
      streamed += bytes.toString("latin1");
      if (streamed.length === expected.length) onComplete();
    });
    accepted.once("end", ended.resolve);
    await ended.promise;
    return streamed;
  }

  /** The client has ended its direction, and gets an answer in the other one. */
  async #answer({ client, accepted }: SocketPair): Promise<void> {
    let answer = "";
    client.on("data", (bytes: Buffer) => {
      answer += bytes.toString("latin1");
    });
    const closed = [client, accepted].map((socket) => new Promise((resolve) => socket.once("close", resolve)));
    this.textHandles = tryTexts(accepted, "f", "ou");
    accepted.end("r");
    await Promise.all(closed);
    this.#expect(answer === "four", "a half-closed connection gets no answer");
  }

  #expect(isTrue: boolean, otherwise: string): void {
    if (!isTrue) this.#fail(otherwise);
  }

  /** Callbacks of a socket must not throw. */
  #fail(reason: string): void {
    this.#failed.reject(new Error(reason));
  }
}

interface SocketPair {
  readonly client: Socket;
  readonly accepted: Socket;
}

/** Acts after the event loop has looked at all sockets once. */
function twoTurnsLater(act: () => void): void {
  setImmediate(() => setImmediate(act));
}
