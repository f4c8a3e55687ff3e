// What the end of reading a socket to the upstream means, and how a socket is read to that end when a write has failed. Node
// destroys such a socket, and with it what it has received: the answer of an upstream that refuses an upload and closes, which
// the system makes a reset if bytes are unread.
import type { Socket } from "node:net";
import { errorCode } from "../core/failure.ts";

/**
 * Makes the end of reading fail with the error that `find` returns, if any. Node pushes null for an end as soon as it comes, also
 * if bytes before it have not been read.
 */
export function judgeEnd(socket: Socket, find: () => Error | null): void {
  const { push } = socket;
  socket.push = (chunk: unknown, encoding?: BufferEncoding): boolean => {
    const error = chunk === null ? find() : null;
    if (error === null) return push.call(socket, chunk, encoding);
    socket.destroy(error);
    return false;
  };
}

/**
 * From now on, a write that fails because the connection was reset leaves the socket open until it has been read to its end.
 * What is written meanwhile is dropped. `mayHaveAnswer`: whether what has not been read yet can answer what was written.
 */
export function readAfterFailedWrite(socket: Socket, isPlain: boolean, mayHaveAnswer: () => boolean): void {
  const { _write: write, _writev: writev, destroy } = socket;
  let hasFailed = false;
  // Of the write that is under way: a stream has one at a time.
  let written: (error?: Error | null) => void = () => {};
  const keepsOpen = (error: unknown): boolean => {
    const code = errorCode(error);
    if (hasFailed || (code !== "ECONNRESET" && code !== "EPIPE") || !mayHaveAnswer()) return false;
    hasFailed = true;
    // The system tells each error once, so after this one the read finds an end. After EPIPE that is true: the upstream had
    // ended its side before the reset. TLS has an end of its own.
    if (isPlain && code === "ECONNRESET") judgeEnd(socket, () => error as Error);
    return true;
  };
  const onWritten: typeof written = (error) => written(keepsOpen(error) ? null : error);
  socket._write = (chunk, encoding, callback) => {
    written = callback;
    if (hasFailed) callback();
    else write.call(socket, chunk, encoding, onWritten);
  };
  socket._writev = (chunks, callback) => {
    written = callback;
    if (hasFailed) callback();
    else writev?.call(socket, chunks, onWritten);
  };
  // For texts that are written without the stream.
  socket.destroy = (error) =>
    error !== undefined && "syscall" in error && error.syscall === "write" && keepsOpen(error)
      ? socket
      : destroy.call(socket, error);
}
