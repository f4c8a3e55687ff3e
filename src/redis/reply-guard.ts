// Follows the frames of what a server sends, before the library reads them. It guarantees that every reply was asked for
// and has a bounded size and depth: the library reserves memory for as many items as a reply announces, and throws
// where a reply comes that nobody has asked for.

const maxReplyBytes = 4 * 1024 * 1024;
const maxItems = 500_000;
const maxDepth = 16;

const [lineFeed, carriageReturn, plus, minus, zero, nine, colon, dollar, star] = [10, 13, 43, 45, 48, 57, 58, 36, 42];

export class ReplyGuard {
  /** Replies that are still to come. Who sends a command adds one before it. */
  expected = 0;
  /** What the next byte belongs to. */
  #within: "type" | "text" | "number" | "bulk" = "type";
  /** Items that each open array still lacks, the outermost first. */
  readonly #lacking: number[] = [];
  #isBulk = false;
  #isNegative = false;
  /** The number as far as it is read; within a bulk string, the bytes that are to come. */
  #number = 0;
  /** Of the reply that has begun. */
  #bytes = 0;
  #items = 0;

  /** Returns false if the connection must be dropped. Then it must not be asked again. */
  admits(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.length; ) {
      const next = this.#read(bytes, at);
      if (next === -1) return false;
      this.#bytes += next - at;
      if (this.#bytes > maxReplyBytes) return false;
      at = next;
      if (this.#within === "type" && this.#lacking.length === 0) this.#endReply();
    }
    return true;
  }

  /** Returns where to go on, -1 if this is no reply. */
  #read(bytes: Uint8Array, at: number): number {
    switch (this.#within) {
      case "type":
        return this.#beginItem(bytes[at]) ? at + 1 : -1;
      case "text": {
        const end = bytes.indexOf(lineFeed, at);
        if (end === -1) return bytes.length;
        this.#endItem();
        return end + 1;
      }
      case "number":
        return this.#readDigit(bytes[at]) ? at + 1 : -1;
      case "bulk": {
        const length = Math.min(this.#number, bytes.length - at);
        this.#number -= length;
        if (this.#number === 0) this.#endItem();
        return at + length;
      }
    }
  }

  #beginItem(type: number | undefined): boolean {
    if (this.#lacking.length === 0 && this.expected === 0) return false;
    if (type === plus || type === minus || type === colon) {
      this.#within = "text";
      return true;
    }
    this.#isBulk = type === dollar;
    this.#within = "number";
    this.#number = 0;
    this.#isNegative = false;
    return this.#isBulk || type === star;
  }

  #readDigit(digit = 0): boolean {
    if (digit === lineFeed) return this.#endNumber();
    if (digit === minus) this.#isNegative = true;
    else if (digit >= zero && digit <= nine) this.#number = this.#number * 10 + digit - zero;
    else if (digit !== carriageReturn) return false;
    return this.#number <= maxReplyBytes;
  }

  #endNumber(): boolean {
    if (this.#isNegative) this.#endItem();
    else if (this.#isBulk) {
      this.#number += 2;
      this.#within = "bulk";
    } else if (this.#number === 0) this.#endItem();
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

  #endReply(): void {
    this.expected -= 1;
    this.#bytes = 0;
    this.#items = 0;
  }
}
