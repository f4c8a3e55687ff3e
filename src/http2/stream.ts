// One stream of HTTP/2, which is one request and its response: what is left of its two windows, and what waits to be sent.
import type { Piece } from "./frame-writer.ts";
import { defaultWindowBytes, errorCodes } from "./protocol.ts";

export class Http2Stream<Owner> {
  readonly id: number;
  /** Whoever answers the request. */
  owner: Owner | null = null;
  /** The client has sent all of its request. */
  isReadEnded: boolean;
  /** Nothing is read or sent any more. */
  isClosed = false;
  /** It ended before the whole response had been sent. */
  isBrokenOff = false;
  isHeadSent = false;
  /** The whole response is in `queue`, or sent. */
  isWriteEnded = false;
  /** Of the reset that tells a client to stop sending a request whose response is complete. */
  unreadCode: number = errorCodes.noError;
  /** The last piece did not leave at once. */
  isBlocked = false;
  /** A block that is sent behind the last piece, or "". */
  trailers = "";
  /** What the windows do not allow to send yet. */
  readonly queue: Piece[] = [];
  queuedBytes = 0;
  sendWindow: number;
  receiveWindow = defaultWindowBytes;
  /** The size of the window: what is left of it, what is kept unread, and what is used but not given back. */
  windowBytes = defaultWindowBytes;
  /** Received and used, but not given back to the client's window. */
  usedBytes = 0;
  /** Of the body, as announced; -1 if it is not known. */
  bytesToCome: number;
  /** What the last check for unread responses found, and how often nothing has moved since. */
  checkedBytes = -1;
  checks = 0;

  constructor(id: number, isReadEnded: boolean, bytesToCome: number, sendWindow: number) {
    this.id = id;
    this.isReadEnded = isReadEnded;
    this.bytesToCome = bytesToCome;
    this.sendWindow = sendWindow;
  }
}
