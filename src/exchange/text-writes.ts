// Writes texts to TCP sockets without Node's streams, whose bookkeeping for a write takes 5 % of the time of a proxied
// request. The handle of a socket passes a text to the system immediately, and keeps the part that the system does not take.
// The handle is not documented: shared-reads-proof.ts tries it at each start, and until then texts are written by streams.
import type { Socket } from "node:net";
import { getSystemErrorName } from "node:util";

/** The part of a handle that is used. */
interface Handle {
  /** Returns 0 if the system has taken all, another number for an error, or a request for the rest, which the handle writes. */
  writeLatin1String(request: null, text: string): number | WriteRequest;
}

interface WriteRequest {
  /** Called with 0 when the system has taken the rest, or with the number of an error. */
  oncomplete?: (status: number) => void;
}

const handleOf = (socket: Socket): Handle | null => (socket as unknown as { _handle: Handle | null })._handle;

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

function streamGivesTextAlone(socket: Socket, handle: Handle, text: string): boolean {
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
