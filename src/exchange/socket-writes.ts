// Writes to the sockets of clients without Node's streams: texts go straight to the handle, messages are put together in one
// buffer. Both are written at once or at the end of a batch of events.
import type { Socket } from "node:net";
import { getSystemErrorName } from "node:util";
import { handleOf, type SocketHandle } from "./sockets.ts";

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
    const mayReuse = isPlain && socket.writableLength === 0;
    const buffer = mayReuse
      ? (this.#partBuffer ?? Buffer.allocUnsafeSlow(maxPartBytes))
      : Buffer.allocUnsafeSlow(length);
    buffer.write(before, 0, "latin1");
    buffer.set(bytes, before.length);
    buffer.write(after, before.length + bytes.length, "latin1");
    socket.write(buffer.subarray(0, length));
    const isTaken = socket.writableLength === 0;
    if (mayReuse) this.#partBuffer = isTaken ? buffer : null;
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
