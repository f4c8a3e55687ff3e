// What forwarding needs of the client's side of a request, so that it carries HTTP/1.1 and HTTP/2 alike.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { RequestListener } from "../core/request-listener.ts";

/** The client's side of a request, as the server presents it. */
export interface Downstream {
  /** Where its body is read from, if it has one, or all of it. */
  readonly body: Readable | Buffer;
  listener: RequestListener | null;
  /** The client has left, or the answer has. */
  readonly isGone: boolean;
  /** The answer has its end: one whose status has no body ends with its head. */
  readonly isEnded: boolean;
  /** The system has all that was written. */
  readonly isFlushed: boolean;
  readonly exchange: ExchangeRecord;
  readonly hasBody: boolean;
  readonly expectsContinue: boolean;
  /** Lets a client that waits for it send its body. */
  writeContinue(): void;
  /** Passes an interim response on, if the client can read one. */
  inform(status: number, fields: readonly string[]): void;
  /** Sends the head, if it is kept back for the first piece of the body. */
  flushHead(): void;
  /**
   * Writes the head of the upstream's response; throws if Node finds a field or the status invalid. `retryAfter` is
   * what the upstream's 429 asks for.
   */
  respond(status: number, statusText: string, fields: string[], retryAfter: readonly string[]): void;
  /** Writes a piece of the body, one character a byte if it is text. False: the next one waits for `onDrain`. */
  write(piece: Buffer | string): boolean;
  /** Ends the answer, behind a last piece if there is one. */
  end(piece?: string): void;
  /**
   * Writes a 101 that switches to `protocol`, past the response, which is over then. Returns the client's socket and
   * what it sent in the meantime; null if the client is gone.
   */
  switchProtocols(protocol: string, fields: readonly string[]): { socket: Socket; early: readonly Buffer[] } | null;
  /** Answers for the gateway; if a head has gone out already, breaks the connection instead. */
  refuse(problem: LocalReply): void;
}
