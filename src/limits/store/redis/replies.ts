// Follows the frames of what a server sends, before the library reads them. It guarantees that every reply was asked for,
// is written as the protocol says, and has a bounded size and depth: the library reserves memory for as many items as a
// reply announces, and throws where a reply comes that nobody has asked for. So both must agree where a reply ends.
import { bracketed, type HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, CallFailureKind } from "../../../core/store-link.ts";

const maxReplyBytes = 4 * 1024 * 1024;
const maxItems = 500_000;
const maxDepth = 16;

const [lineFeed, carriageReturn, plus, minus, zero, nine, colon, dollar, star] = [10, 13, 43, 45, 48, 57, 58, 36, 42];

/** What the next byte belongs to. `feed`: the line feed of a line. `end`: the line end of a bulk string. */
type Within = "type" | "text" | "number" | "feed" | "bulk" | "end";

export class ReplyGuard {
  /** Replies that are still to come. Who sends a command adds one before it. */
  expected = 0;
  #within: Within = "type";
  #type = 0;
  /** Items that each open array still lacks, the outermost first. */
  readonly #lacking: number[] = [];
  /** Of the number that is read. */
  #digits = 0;
  #isNegative = false;
  /** The number as far as it is read; within a bulk string, the bytes that are to come. */
  #number = 0;
  /** Of the reply that has begun. */
  #bytes = 0;
  #items = 0;

  /** Returns the part of a reply that is at fault, if the connection must be dropped. Then it must not be asked again. */
  fault(bytes: Uint8Array): Within | null {
    for (let at = 0; at < bytes.length; ) {
      const within = this.#within;
      const next = this.#read(bytes, at);
      if (next === -1) return within;
      this.#bytes += next - at;
      if (this.#bytes > maxReplyBytes) return "bulk";
      at = next;
      if (this.#within !== "type" || this.#lacking.length > 0) continue;
      this.expected -= 1;
      this.#bytes = 0;
      this.#items = 0;
    }
    return null;
  }

  /** Returns where to go on, -1 if this is no reply. */
  #read(bytes: Uint8Array, at: number): number {
    const byte = bytes[at] ?? 0;
    switch (this.#within) {
      case "type":
        return this.#beginItem(byte) ? at + 1 : -1;
      case "text":
        return this.#readText(bytes, at);
      case "number":
        return this.#readNumber(byte) ? at + 1 : -1;
      case "feed":
        return byte === lineFeed && this.#endLine() ? at + 1 : -1;
      case "bulk": {
        const length = Math.min(this.#number, bytes.length - at);
        this.#number -= length;
        if (this.#number === 0) this.#within = "end";
        return at + length;
      }
      case "end":
        this.#within = "feed";
        return byte === carriageReturn ? at + 1 : -1;
    }
  }

  #beginItem(type: number): boolean {
    if (this.#lacking.length === 0 && this.expected === 0) return false;
    this.#type = type;
    this.#number = 0;
    this.#digits = 0;
    this.#isNegative = false;
    this.#within = type === plus || type === minus ? "text" : "number";
    return type === plus || type === minus || type === colon || type === dollar || type === star;
  }

  #readText(bytes: Uint8Array, at: number): number {
    const end = bytes.indexOf(carriageReturn, at);
    const feed = bytes.indexOf(lineFeed, at);
    if (feed !== -1 && (end === -1 || feed < end)) return -1;
    if (end === -1) return bytes.length;
    this.#within = "feed";
    return end + 1;
  }

  #readNumber(byte: number): boolean {
    if (byte === carriageReturn) {
      this.#within = "feed";
      return this.#digits > 0;
    }
    if (byte === minus && this.#digits === 0 && !this.#isNegative) {
      this.#isNegative = true;
      return true;
    }
    this.#digits += 1;
    this.#number = this.#number * 10 + byte - zero;
    // A length below zero is that of a null, and is written "-1".
    const mostDigits = this.#isNegative && this.#type !== colon ? 1 : 20;
    return byte >= zero && byte <= nine && this.#digits <= mostDigits;
  }

  /** The line feed has come: of a line, or of the end of a bulk string. */
  #endLine(): boolean {
    const isLength = this.#type === star || this.#type === dollar;
    if (!isLength || this.#isNegative) {
      this.#endItem();
      return !isLength || this.#number === 1;
    }
    if (this.#number > maxReplyBytes) return false;
    if (this.#type === dollar) {
      this.#within = this.#number === 0 ? "end" : "bulk";
      // After its own line end it is an item like a line.
      this.#type = plus;
      return true;
    }
    if (this.#number === 0) this.#endItem();
    else {
      this.#items += this.#number;
      this.#lacking.push(this.#number);
      this.#within = "type";
    }
    return this.#items <= maxItems && this.#lacking.length <= maxDepth;
  }

  #endItem(): void {
    this.#within = "type";
    while (this.#lacking.length > 0) {
      const lacking = (this.#lacking.pop() ?? 0) - 1;
      if (lacking === 0) continue;
      this.#lacking.push(lacking);
      return;
    }
  }
}

// Says why a store did not do what it was asked: the kind by which the limiter decides, and a line for the log that
// contains neither a password nor a key of a client.

/** What a promise within this folder rejects with. */
export class StoreError extends Error {
  readonly failure: CallFailure;

  constructor(failure: CallFailure) {
    super(failure.detail);
    this.failure = failure;
  }
}

export function unreachable(detail: string): CallFailure {
  return { kind: "unreachable", detail };
}

export function failureOf(error: unknown): CallFailure {
  return error instanceof StoreError ? error.failure : { kind: "failed", detail: String(error).slice(0, 200) };
}

/** Puts the address before the detail, in one line: a sentinel or a cluster may have named the address. */
export function failureAt({ host, port }: HostPort, { kind, detail }: CallFailure): CallFailure {
  return { kind, detail: oneLine(`${bracketed(host)}:${port}: ${detail}`) };
}

/** The first match counts. */
const kinds: readonly (readonly [CallFailureKind, RegExp])[] = [
  ["refused", /^(?:WRONGPASS|NOAUTH|NOPERM|DENIED)(?![A-Z])/],
  ["full", /^OOM(?![A-Z])/],
  ["unready", /^(?:READONLY|LOADING|MASTERDOWN|MISCONF|BUSY|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|MOVED|ASK)(?![A-Z])/],
  ["unready", /^ERR max number of clients/],
  ["refused", /^ERR (?:invalid password|AUTH |Client sent AUTH)/],
  // A command within a script that the user may not use: Redis 6 and 7.0, then later ones and Valkey.
  ["refused", /^ERR (?:The user executing the script can't|ACL failure in script)/],
];

const kindOf = (text: string) => kinds.find(([, pattern]) => pattern.test(text));

/** The message of an error reply begins with its code. */
export function errorReplyFailure(message: string): CallFailure {
  // Redis 6 reports what a command within a script was answered as "ERR Error running script (…): -OOM command …".
  const [, inner = ""] = /[ :]-([A-Z]+ )/.exec(message) ?? [];
  const [kind] = kindOf(message) ?? kindOf(inner) ?? ["failed" as const];
  return { kind, detail: oneLine(message) };
}

/** Adds the command of the script that has failed, which Redis 7.0 names by its line alone. */
export function withCommand(script: string, { kind, detail }: CallFailure): CallFailure {
  const [, line] = /@user_script: ?(\d+)/.exec(detail) ?? [];
  const [, command] = /redis\.p?call\('(\w+)'/.exec(script.split("\n")[Number(line) - 1] ?? "") ?? [];
  if (command === undefined) return { kind, detail };
  return { kind, detail: `${detail.replace(/\.? script: [0-9a-f]{40}, on @user_script:\d+\.$/, "")} (${command})` };
}

/** Whether the command does not exist there (a managed server, `rename-command`), or the user may not run it. */
export function isLacking({ detail }: CallFailure): boolean {
  return /^(?:NOPERM|ERR unknown (?:command|subcommand))/i.test(detail);
}

const maxDetail = 200;

/** An unknown command is reported with its arguments, and some errors name the key. */
function oneLine(message: string): string {
  return message
    .replace(/, with args beginning with.*$/s, "")
    .replace(/\S*\{[^}]*\}\S*/g, "(key)")
    .replace(/[^\x20-\x7e]+/g, " ")
    .slice(0, maxDetail)
    .trimEnd();
}
