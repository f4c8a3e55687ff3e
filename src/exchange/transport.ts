// The differences between what carries a request: a connection of HTTP/1, a stream of HTTP/2, an ingress' check, or
// Fastify. A transport reads and writes; exchange.ts decides what happens to a request.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { HeaderLines } from "../core/headers.ts";
import type { Held } from "../core/policy.ts";
import type { Scheme } from "../core/settings.ts";

export interface Transport {
  readonly scheme: Scheme;
  /** The body of the request, in pieces or complete. */
  readonly body: Readable | PushedBody | Buffer;
  /** The request is an Upgrade that is allowed. */
  readonly isUpgrade: boolean;
  /** The client has left. */
  readonly isGone: boolean;
  /** A head has been sent, or can no longer be replaced. */
  readonly isHeadSent: boolean;
  /** The response has been ended, by `end` or, if it has no body, by its head. */
  readonly isEnded: boolean;
  /** The kernel has taken everything that was written. */
  readonly isFlushed: boolean;
  /** Bytes of the request's body that have been received, without their framing; null if that is not known here. */
  readonly bodyBytesReceived: number | null;
  /**
   * Bytes of the heads, bodies and chunks of this exchange that have been written; null if that is not known here. Of
   * HTTP/2, the heads as HTTP/1 would send them, and the bodies without their frames.
   */
  readonly bytesSent: number | null;
  /** Sends a 100, for which the client waits before it sends its body. */
  sendContinue(): void;
  /** Sends an interim response, unless the client's protocol has none. */
  sendInterim(status: number, lines: HeaderLines): void;
  /**
   * Sends the head of the final response, or keeps it for the first piece of the body, and adds the headers about the
   * connection and the framing. `hasLength`: a Content-Length is among the lines. `mustClose`: close the connection after
   * this response, because client and gateway may disagree about where the next request begins. Throws if Node finds a
   * header or the status invalid.
   */
  sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, mustClose: boolean): void;
  /** Sends a head that is kept for the first piece of the body. */
  flushHead(): void;
  /** Writes a piece of the body; one character of a text is one byte. False: wait for `onDrain` before the next piece. */
  write(piece: Buffer | string): boolean;
  /** Ends the response, after a last piece of the body unless that is empty. */
  end(last: string): void;
  /** Breaks the connection or the stream, so that the client does not take an incomplete response as complete. */
  abort(): void;
  /** Writes a 101. Returns the client's socket and the bytes that it has sent since; null if it has left. */
  switchProtocols(lines: HeaderLines): SwitchedConnection | null;
}

export interface SwitchedConnection {
  readonly socket: Socket;
  readonly early: readonly Buffer[];
}

/** The client's side of a connection that becomes a tunnel. */
export interface TunnelStart extends SwitchedConnection {
  /** Must be ended with the tunnel. */
  readonly held: Held | null;
  /** Calls `then` when the token of the request ends. Returns a function that cancels this. Null: the token has no end. */
  readonly whenTokenEnds: ((then: () => void) => () => void) | null;
}

/** The body of a request that passes its pieces to one reader, without the events and the buffers of a stream. */
export interface PushedBody {
  /** Set by who reads the body, before it calls `resume`. */
  reader: BodyReader | null;
  /** It will not be complete. */
  readonly destroyed: boolean;
  /** It is paused at first. */
  pause(): void;
  /** Is not called after the end. */
  resume(): void;
}

export interface BodyReader {
  /**
   * The bytes are overwritten after the call: what is kept has to be copied. `progressBytes`: what counts for the minimum
   * rate. `isLast`: the body is complete with these.
   */
  onData(bytes: Buffer, progressBytes: number, isLast: boolean): void;
  /** The body was complete without further bytes. */
  onEnd(): void;
}
