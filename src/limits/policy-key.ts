// Reads the key under which a policy charges a request. The key has a fixed size, and a value that a client has chosen
// cannot be found in it. Each part is tagged with its kind and preceded by its length, so that no value passes for
// another one, and a part that the request lacks is replaced by its client, so that leaving it out gains nothing.
import type { Identity } from "../core/authenticator.ts";
import { CounterKey } from "../core/counter-key.ts";
import type { KeyPart, Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import type { SipHash } from "../core/sip-hash.ts";
import { claimPart, headerPart, subjectPart, type TokenDigests } from "./request-parts.ts";

export type KeyReader = (request: ParsedRequest, head: RequestHead, identity: Identity | null) => CounterKey;

/** `hash`: with a random key, the same as long as what is counted by the keys is in use. */
export function createKeyReader({ key }: Policy, hash: SipHash, tokens: TokenDigests): KeyReader {
  if (key.length === 0) return () => oneForAll;
  if (key.length === 1 && key[0]?.kind === "client") return ({ counterKey }) => counterKey;
  const text = new TaggedText();
  return (request, head, identity) => {
    for (const part of key) {
      const value = partOf(part, request, head, identity, tokens);
      if (value === "") text.add(tags.client, request.client);
      else text.add(tags[part.kind], value);
    }
    const hashed = hash.key(text.bytes, text.length);
    text.erase();
    return hashed;
  };
}

/** No hash is likely to be the same, and a policy has keys of one kind only. */
const oneForAll = new CounterKey(0, 0, 0, 0, false);

const tags: Readonly<Record<KeyPart["kind"], number>> = {
  client: 1,
  token: 2,
  subject: 3,
  claim: 4,
  header: 5,
  method: 6,
  route: 7,
};

/** Returns "" if the request lacks the part. */
function partOf(
  part: KeyPart,
  request: ParsedRequest,
  head: RequestHead,
  identity: Identity | null,
  tokens: TokenDigests,
): string {
  switch (part.kind) {
    case "client":
      return request.client;
    case "token":
      return tokens.of(head.rawHeaders, identity);
    case "subject":
      return subjectPart(identity);
    case "claim":
      return claimPart(identity, part.name);
    case "header":
      return headerPart(head.rawHeaders, part.name);
    case "method":
      return usualMethods.has(head.method) ? head.method : "other";
    case "route":
      return request.route ?? "";
  }
}

/** All other methods have one key, because a client can invent them. */
const usualMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Tagged texts one after the other, in one buffer that is used again for each request. */
class TaggedText {
  bytes = new Uint8Array(256);
  length = 0;

  add(tag: number, text: string): void {
    this.#reserve(5 + text.length * 2);
    const start = this.length + 5;
    let seen = 0;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      this.bytes[start + i] = code;
      seen |= code;
    }
    // Headers have one byte for each character. A text with others, such as a name, has two, and another tag.
    const isWide = seen > 0xff;
    if (isWide) this.#writeWide(start, text);
    const size = isWide ? text.length * 2 : text.length;
    this.bytes[this.length] = isWide ? tag | 0x80 : tag;
    for (let i = 0; i < 4; i += 1) this.bytes[this.length + 1 + i] = size >>> (i * 8);
    this.length = start + size;
  }

  /** No value of a request stays in memory. */
  erase(): void {
    this.bytes.fill(0, 0, this.length);
    this.length = 0;
  }

  #writeWide(start: number, text: string): void {
    for (let i = 0; i < text.length; i += 1) {
      this.bytes[start + i * 2] = text.charCodeAt(i);
      this.bytes[start + i * 2 + 1] = text.charCodeAt(i) >>> 8;
    }
  }

  #reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const larger = new Uint8Array((this.length + more) * 2);
    larger.set(this.bytes);
    this.bytes.fill(0);
    this.bytes = larger;
  }
}
