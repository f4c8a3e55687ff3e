// All that differs between what carries a request: a raw socket, Node's HTTP/1, a stream of HTTP/2, an ingress' check,
// a reply of Fastify. A transport reads and writes; what happens to a request is decided in exchange.ts.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { HeaderList } from "../core/header-list.ts";

export interface Transport {
  /** What the client's connection speaks. */
  readonly scheme: "http" | "https";
  /** Where the client's body is read from, or all of it. */
  readonly body: Readable | Buffer;
  /** Whether the request asks for another protocol and may have it. */
  readonly isUpgrade: boolean;
  /** The client has left: nothing that is sent would reach it. */
  readonly isGone: boolean;
  /** A head has been sent, or at least cannot be replaced any more. */
  readonly isHeadSent: boolean;
  /** The response has its end. One whose status has no body ends with its head. */
  readonly isEnded: boolean;
  /** The kernel has everything that was written. */
  readonly isFlushed: boolean;
  /** Sends a 100, which lets a client that waits for it send its body. */
  sendContinue(): void;
  /** Passes an interim response on, if the client can read one. */
  sendInterim(status: number, headers: HeaderList): void;
  /**
   * Sends the head of the final response, or keeps it for the first piece of the body. `mustClose`: client and gateway
   * may disagree about where the next request begins, so the connection ends behind this response. Adds to `headers`
   * what concerns the connection and the framing. Throws if Node finds a header or the status invalid.
   */
  sendHead(status: number, reason: string, headers: string[], mustClose: boolean): void;
  /** Sends the head now, if it is kept for the first piece of the body. */
  flushHead(): void;
  /** Writes a piece of the body; one character of a text is one byte. False: the next piece waits for `onDrain`. */
  write(piece: Buffer | string): boolean;
  /** Ends the response, behind a last piece of the body if that is not empty. */
  end(last: string): void;
  /** Breaks the connection or the stream, so that no client can take what it has read for the whole response. */
  abort(): void;
  /**
   * Writes a 101. Returns the client's socket and what the client has sent on it so far; null if the client is gone.
   */
  switchProtocols(headers: HeaderList): SwitchedConnection | null;
}

export interface SwitchedConnection {
  readonly socket: Socket;
  readonly early: readonly Buffer[];
}
