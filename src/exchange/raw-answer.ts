// Answers without a request: the parser gave up, the head took too long, or there are too many connections. They look
// like every other answer of the gateway's and carry the same fields.

import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { type ExchangeRecord, unparsedRecord } from "../core/exchange-record.ts";
import type { ResponseFields } from "../core/fields.ts";
import { maxHeadBytes } from "../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import type { Decision } from "../core/policy.ts";
import { serializeHead } from "../core/response-head.ts";

export interface RawAnswersOptions {
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  /** A client's quota as it is now, without spending it. */
  readonly observe: (client: string) => Decision | Promise<Decision>;
  readonly onEnd: (exchange: ExchangeRecord, path: string) => void;
}

/** A connection without a request that could be answered. */
export interface Answerable {
  readonly socket: Socket;
  readonly peer: Peer;
  readonly isClosing: boolean;
  endWith(answer: string): void;
}

export class RawAnswers {
  readonly #options: RawAnswersOptions;

  constructor(options: RawAnswersOptions) {
    this.#options = options;
  }

  /** The last thing on this connection, unless it has had that already. */
  answer(connection: Answerable, problem: LocalReply): void {
    const { socket, peer } = connection;
    if (connection.isClosing || !socket.writable) {
      socket.destroy();
      return;
    }
    const write = (decision: Decision): void => {
      const { fields, body } = this.#options.fields.problem(problem, decision);
      connection.endWith(serializeAnswer(problem, fields, body));
      this.#options.onEnd(unparsedRecord(peer.key, decision, problem, this.#options.nowMs()), "");
    };
    const decision = this.#options.observe(peer.key);
    if (decision instanceof Promise) decision.then(write).catch(() => socket.destroy());
    else write(decision);
  }
}

/** What to tell a client whose bytes the parser refused; null when there is nobody left to tell. */
export function problemOfParseError(error: Error, receivedBytes: number): LocalReply | null {
  const code = "code" in error ? String(error.code) : "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return overflowProblem(error, receivedBytes);
  // The client closed its side in the middle of a message; a reset is no message at all.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return localReplies.malformed;
}

/**
 * The target was too long if the connection began with it and its line did not end in time. Of later heads the parser
 * does not say where they began, so there it is the head as a whole, which is true as well.
 */
function overflowProblem(error: Error, receivedBytes: number): LocalReply {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a)
    ? localReplies.targetTooLong
    : localReplies.headTooLarge;
}

function serializeAnswer({ status, message }: LocalReply, fields: readonly string[], body: string): string {
  return serializeHead(status, message, [...fields, "Connection", "close"]) + body;
}
