// Reads the heads of one connection, or the first ones of all connections. A client mostly sends the same head again, or
// the same but for the target: then what was read from the last one is used again, which is much cheaper than reading it.
// It is compared byte by byte, and belongs to the same peer, so the result is the same.
import type { Peer } from "../../core/client-address.ts";
import type { LocalReply } from "../../core/local-reply.ts";
import { HeadersMemory, HeadMemory, type RequestHead } from "../../core/request-head.ts";
import { copyOf } from "../../exchange/sockets.ts";
import {
  type Http1Head,
  headLength,
  type RequestFraming,
  readHead,
  readOriginLine,
  readUsualHead,
  requestBounds,
} from "../../http1/request-head.ts";

export interface ReadHead extends RequestFraming {
  readonly head: RequestHead;
  /** The client may wait for a 100 and, if it gets none, send its body or not. */
  readonly awaitsContinue: boolean;
}

interface Remembered extends ReadHead {
  readonly bytes: Buffer;
  /** From the end of the request line on. */
  readonly fields: string;
  readonly memory: HeadersMemory;
}

const nothing = Buffer.alloc(0);

/** With what is read from it, a remembered head takes about six times its size. */
const maxRememberedBytes = 2 * 1024;

/** As Node reads it. */
const namesContinue = /(?:^|\W)100-continue(?:$|\W)/i;

export class RequestReader {
  #last: Remembered | null = null;
  /** For the bytes of the last head, and of no other connection: Node's pool would keep 64 KiB for each of them. */
  #memory: Buffer = nothing;
  /** Of the last head. A head is remembered only if the one before came from the same peer, too. */
  #lastPeer: Peer | "any" | null;

  /** `any`: the peer has sent a head before, which another reader has read. */
  constructor(lastPeer: "any" | null = null) {
    this.#lastPeer = lastPeer;
  }

  /** Reads the head at the beginning of the bytes, as `readHead`. */
  read(bytes: Buffer, peer: Peer, bounds = requestBounds): ReadHead | "incomplete" | LocalReply {
    const last = this.#last?.head.peer === peer ? this.#last : null;
    if (last !== null && startsWith(bytes, last.bytes)) return last;
    const length = headLength(bytes);
    const text = length === -1 ? "" : bytes.toString("latin1", 0, length);
    const lineEnd = text.indexOf("\r\n");
    const again = last === null ? null : this.#readAgain(last, bytes, length, text, lineEnd);
    if (again !== null) return again;
    const own = readUsualHead(text, bounds) ?? readHead(bytes, bounds);
    if (own === "incomplete" || "status" in own) return own;
    const { method, target, httpVersion, rawHeaders, headBytes, bodyBytes, isLast, asksToUpgrade } = own;
    const isKnown = this.#lastPeer === peer || this.#lastPeer === "any";
    const memory = isKnown && canBeShared(own) ? new HeadersMemory() : null;
    this.#lastPeer = peer;
    const headMemory = memory === null ? null : new HeadMemory(memory);
    const head: RequestHead = { peer, method, target, httpVersion, rawHeaders, memory: headMemory };
    const read: ReadHead = { head, headBytes, bodyBytes, awaitsContinue: mayAwaitContinue(own), isLast, asksToUpgrade };
    if (memory !== null) {
      this.#last = { ...read, memory, bytes: this.#copyOf(bytes, headBytes), fields: text.slice(lineEnd) };
    }
    return read;
  }

  /** Gives the memory back that only makes the next head cheaper. */
  forget(): void {
    this.#last = null;
    this.#memory = nothing;
  }

  /** Returns null unless only the target differs from that of the last head. */
  #readAgain(last: Remembered, bytes: Buffer, length: number, text: string, lineEnd: number): ReadHead | null {
    const head = withOtherTarget(last, text, lineEnd);
    if (head === null) return null;
    this.#last = { ...last, head, headBytes: length, bytes: this.#copyOf(bytes, length) };
    return this.#last;
  }

  /** Overwrites the copy of the head before. */
  #copyOf(bytes: Buffer, headBytes: number): Buffer {
    if (this.#memory.length < headBytes) this.#memory = copyOf(bytes.subarray(0, headBytes));
    else bytes.copy(this.#memory, 0, 0, headBytes);
    return this.#memory.length === headBytes ? this.#memory : this.#memory.subarray(0, headBytes);
  }
}

function startsWith(bytes: Buffer, head: Buffer): boolean {
  if (bytes.length === head.length) return bytes.equals(head);
  return bytes.length > head.length && bytes.compare(head, 0, head.length, 0, head.length) === 0;
}

function mayAwaitContinue({ expectation, bodyBytes }: Http1Head): boolean {
  return expectation !== null && (bodyBytes !== 0 || namesContinue.test(expectation));
}

/** The host of the absolute form replaces that of the headers, so they could not be shared. HTTP/1.0 may have no host. */
function canBeShared({ httpVersion, target, headBytes }: Http1Head): boolean {
  return httpVersion === "1.1" && target.startsWith("/") && headBytes <= maxRememberedBytes;
}

/** Returns null unless only the target differs. */
function withOtherTarget({ head, memory, fields }: Remembered, text: string, lineEnd: number): RequestHead | null {
  if (text.length > maxRememberedBytes || text.length - lineEnd !== fields.length) return null;
  if (!text.startsWith(fields, lineEnd)) return null;
  const line = readOriginLine(text.slice(0, lineEnd));
  if (line === null || line.method !== head.method) return null;
  const { peer, method, httpVersion, rawHeaders } = head;
  return { peer, method, target: line.target, httpVersion, rawHeaders, memory: new HeadMemory(memory) };
}
