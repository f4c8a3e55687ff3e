// Checks the bytes of a request head one by one (RFC 9112, 2 to 5), also if they come in pieces: each byte is looked at
// once, and nothing is built of them. It accepts no more than llhttp, Node's parser, and its bounds count what Node counts:
// the target and the names and values of the fields.
import { maxFields, maxHeadBytes } from "../core/http-bounds.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";

export interface HeadBounds {
  readonly maxBytes: number;
  readonly maxFields: number;
}

export const requestBounds: HeadBounds = { maxBytes: maxHeadBytes, maxFields };

/** All that Node knows. */
export const methods: readonly string[] = [
  "GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE ACL BIND CHECKOUT COPY LINK LOCK M-SEARCH MERGE MKACTIVITY",
  "MKCALENDAR MKCOL MOVE NOTIFY PROPFIND PROPPATCH PURGE QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE UNBIND UNLINK",
  "UNLOCK UNSUBSCRIBE",
].flatMap((line) => line.split(" "));

const longestMethod = Math.max(...methods.map(({ length }) => length));

/** The characters of a host, with those of a user, which is refused later (RFC 9110, 4.2.4). */
const authority = "(?:[!$%&'()*+,\\-.0-9:;=A-Z_a-z~[\\]]|@(?!@))*";
const rest = "(?:[/?].*)?";
/** Of visible ASCII. */
const targetForms = {
  other: new RegExp(`^(?:[/*].*|[A-Za-z]+://${authority}${rest})$`),
  connect: new RegExp(`^${authority}${rest}$`),
};

/** What is not counted: separators, the method, the version, and blanks around values. */
const maxUncountedBytes = 2 * 1024;

type State =
  | "method"
  | "before target"
  | "target"
  | "before version"
  | "version"
  | "end of line"
  | "field"
  | "name"
  | "before value"
  | "value"
  | "end of head"
  | "over";

const [tab, lf, cr, space, colon] = [0x09, 0x0a, 0x0d, 0x20, 0x3a];

const isToken = byteTable(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/);
const isInTarget = byteTable(/[\x21-\x7e]/);
/** With obs-text (RFC 9110, 5.5). */
const isInValue = byteTable(/[\t\x20-\x7e\x80-\xff]/);

export class HeadScan {
  readonly #bounds: HeadBounds;
  #state: State = "method";
  #at = 0;
  /** Where the text that is being taken begins. */
  #from = 0;
  #isConnect = false;
  #countedBytes = 0;
  #fields = 0;

  constructor(bounds: HeadBounds) {
    this.#bounds = bounds;
  }

  /**
   * Goes on with bytes that begin with those of the call before. Returns the length of the head with its empty line.
   */
  next(bytes: Buffer): number | "incomplete" | LocalReply {
    let problem: LocalReply | null = null;
    while (problem === null && this.#at < bytes.length && this.#state !== "over") {
      problem = this.#step(bytes, bytes[this.#at] as number);
    }
    if (problem !== null) return problem;
    if (this.#at > this.#bounds.maxBytes + maxUncountedBytes) return this.#tooLarge();
    if (this.#state === "method" && !isBegunMethod(this.#text(bytes))) return localReplies.malformed;
    return this.#state === "over" ? this.#at : "incomplete";
  }

  /** Takes a byte, or all of a target, a name or a value. */
  #step(bytes: Buffer, byte: number): LocalReply | null {
    switch (this.#state) {
      case "method":
        return this.#takeMethod(bytes, byte);
      case "before target":
        return byte === space ? this.#go("before target") : this.#begin("target");
      case "target":
        return this.#takeCounted(bytes, isInTarget) ?? this.#takeTargetEnd(bytes);
      case "before version":
        return byte === space ? this.#go("before version") : this.#begin("version");
      case "version":
        if (byte === cr) return this.#go("end of line", /^HTTP\/\d\.\d$/.test(this.#text(bytes)));
        return this.#go("version", this.#at - this.#from < "HTTP/1.1".length);
      case "end of line":
        return this.#go("field", byte === lf);
      case "field":
        if (byte === cr) return this.#go("end of head");
        this.#fields += 1;
        if (this.#fields > this.#bounds.maxFields) return localReplies.headTooLarge;
        return isToken[byte] === 1 ? this.#begin("name") : localReplies.malformed;
      case "name":
        return this.#takeCounted(bytes, isToken) ?? this.#takeEnd(bytes, colon, "before value");
      case "before value":
        return byte === space || byte === tab ? this.#go("before value") : this.#begin("value");
      case "value":
        return this.#takeCounted(bytes, isInValue) ?? this.#takeEnd(bytes, cr, "end of line");
      case "end of head":
        return this.#go("over", byte === lf);
      case "over":
        return null;
    }
  }

  #go(next: State, isAllowed = true): LocalReply | null {
    if (!isAllowed) return localReplies.malformed;
    this.#state = next;
    this.#at += 1;
    return null;
  }

  #begin(next: State): null {
    this.#state = next;
    this.#from = this.#at;
    return null;
  }

  #takeCounted(bytes: Buffer, table: Uint8Array): LocalReply | null {
    let at = this.#at;
    while (at < bytes.length && table[bytes[at] as number] === 1) at += 1;
    this.#countedBytes += at - this.#at;
    this.#at = at;
    return this.#countedBytes < this.#bounds.maxBytes ? null : this.#tooLarge();
  }

  #takeEnd(bytes: Buffer, end: number, next: State): LocalReply | null {
    return this.#at === bytes.length ? null : this.#go(next, bytes[this.#at] === end);
  }

  #takeMethod(bytes: Buffer, byte: number): LocalReply | null {
    if (byte !== space) return this.#go("method", isToken[byte] === 1 && this.#at < longestMethod);
    const method = this.#text(bytes);
    this.#isConnect = method === "CONNECT";
    return this.#go("before target", methods.includes(method));
  }

  #takeTargetEnd(bytes: Buffer): LocalReply | null {
    if (this.#at === bytes.length) return null;
    const form = this.#isConnect ? targetForms.connect : targetForms.other;
    if (!form.test(this.#text(bytes))) return localReplies.malformed;
    // HTTP/0.9 has no version, and is refused later.
    return bytes[this.#at] === space ? this.#begin("before version") : this.#takeEnd(bytes, cr, "end of line");
  }

  /** The target has a bound of its own, and a status that says so. */
  #tooLarge(): LocalReply {
    return this.#state === "target" ? localReplies.targetTooLong : localReplies.headTooLarge;
  }

  #text(bytes: Buffer): string {
    return bytes.toString("latin1", this.#from, this.#at);
  }
}

function isBegunMethod(text: string): boolean {
  return methods.some((method) => method.startsWith(text));
}

function byteTable(characters: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => Number(characters.test(String.fromCharCode(byte))));
}
