// The requests and the response that the gateway's own codec reads, in whatever pieces the bytes come, without a socket.
import { readMessage } from "../../../src/core/message-check.ts";
import { type BodyDecoder, ChunkDecoder, LengthDecoder, requestChunks } from "../../../src/http1/body-decoder.ts";
import { emptyLineBytes, type Http1Head, readHead } from "../../../src/http1/request-head.ts";
import { RememberedHeads, ResponseParser } from "../../../src/http1/response-parser.ts";
import type { Reading } from "./reading.ts";
import type { ReadResponse } from "./response-reading.ts";

interface Request {
  readonly target: string;
  body: string;
  isWhole: boolean;
}

export function readOurs(pieces: readonly string[]): Reading {
  const reader = new OurReader();
  for (const piece of pieces) reader.read(Buffer.from(piece, "latin1"));
  return { requests: reader.requests, ending: reader.ending };
}

class OurReader {
  readonly requests: Request[] = [];
  ending: Reading["ending"] = "waiting";
  #rest: Buffer = Buffer.alloc(0);
  #head: Http1Head | null = null;
  #body: BodyDecoder = new LengthDecoder(0);

  read(piece: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, piece]);
    while (this.ending === "waiting" && this.#step());
  }

  /** Returns whether there may be more to read. */
  #step(): boolean {
    return this.#head === null ? this.#readHead() : this.#readBody(this.#head);
  }

  #readHead(): boolean {
    this.#rest = this.#rest.subarray(emptyLineBytes(this.#rest));
    if (this.#rest.length === 0) return false;
    const head = readHead(this.#rest);
    if (head === "incomplete") return false;
    if ("status" in head || readMessage(head).problem !== null) {
      this.ending = "refused";
      return false;
    }
    this.#head = head;
    this.requests.push({ target: head.target, body: "", isWhole: false });
    this.#rest = this.#rest.subarray(head.headBytes);
    const { bodyBytes } = head;
    this.#body = bodyBytes === null ? new ChunkDecoder(requestChunks, null) : new LengthDecoder(bodyBytes);
    return true;
  }

  #readBody({ isLast, asksToUpgrade }: Http1Head): boolean {
    const { taken, data, problem } = this.#body.decode(this.#rest);
    const request = this.requests.at(-1);
    if (request !== undefined) request.body += data.toString("latin1");
    this.#rest = this.#rest.subarray(taken);
    if (problem !== null) this.ending = "refused";
    if (problem !== null || !this.#body.isComplete) return false;
    if (request !== undefined) request.isWhole = true;
    this.#head = null;
    if (isLast || asksToUpgrade) this.ending = "ended";
    return true;
  }
}

/** `isClosed`: the upstream closes the connection behind the pieces. */
export function readOurResponse(pieces: readonly string[], method: string, isClosed: boolean): ReadResponse {
  let status = 0;
  let body = "";
  const parser = new ResponseParser(
    {
      onInterim: () => {},
      onHead: (head) => {
        status = head.status;
      },
      onBody: (bytes, from, to) => {
        body += bytes.toString("latin1", from, to);
        return false;
      },
    },
    new RememberedHeads(),
  );
  parser.begin(method);
  let ownBytes = 0;
  try {
    for (const piece of pieces) if (!parser.isOver) ownBytes += parser.execute(Buffer.from(piece, "latin1"));
    // One that ends too early is broken off.
    if (!parser.isOver && isClosed && !parser.end()) return { status, body, outcome: "refused", ownBytes: 0 };
  } catch {
    return { status, body, outcome: "refused", ownBytes: 0 };
  }
  return { status, body, outcome: parser.isOver ? "whole" : "waiting", ownBytes: parser.isOver ? ownBytes : 0 };
}
