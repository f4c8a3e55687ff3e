// The tokens that pass where `tokens` is asked for, known by their SHA-256 digests. The tokens themselves are
// neither stored here nor compared.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Identity } from "../core/authentication.ts";

export interface ListedToken {
  /** SHA-256, in hex. */
  readonly digest: string;
  /** Several tokens may have the same name. */
  readonly name: string | null;
  /** Absent: none. */
  readonly scopes?: readonly string[];
  /** The instant from which on it is refused, in Unix milliseconds; null or absent: it has no end. */
  readonly endsMs?: number | null;
}

interface Entry {
  readonly digest: Buffer;
  /** Made once, because each request of the token has it. */
  readonly identity: Identity;
}

const noClaims: ReadonlyMap<string, string> = new Map();

export class TokenList {
  // Digests are looked up by a text that nobody outside this process can predict, so the time of a lookup does not show
  // how much of a guess was right. The digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #entries = new Map<string, Entry>();
  #names: ReadonlySet<string> | null = null;

  /** Of two names for one digest, the first counts. */
  constructor(tokens: readonly ListedToken[]) {
    for (const { digest: hex, name, scopes = [], endsMs = null } of tokens) {
      const digest = Buffer.from(hex, "hex");
      const place = this.#placeOf(digest);
      const tokenName = this.#entries.get(place)?.identity.tokenName ?? name;
      const named = { tokenDigest: hex.toLowerCase(), tokenName, subject: tokenName };
      const identity: Identity = { ...named, scopes, endsMs, claims: noClaims };
      this.#entries.set(place, { digest, identity });
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  endingBefore(beforeMs: number): readonly Pick<Identity, "tokenName" | "endsMs">[] {
    const identities = [...this.#entries.values()].map(({ identity }) => identity);
    return identities.filter(({ endsMs }) => endsMs !== null && endsMs < beforeMs);
  }

  /** Names of the listed tokens. Made once, because each rule about a token looks there. */
  names(): ReadonlySet<string> {
    this.#names ??= new Set([...this.#entries.values()].flatMap(({ identity }) => identity.tokenName ?? []));
    return this.#names;
  }

  *identities(): Iterable<Identity> {
    for (const { identity } of this.#entries.values()) yield identity;
  }

  hasDigest(hex: string): boolean {
    return this.#entries.has(this.#placeOf(Buffer.from(hex, "hex")));
  }

  hasScopes(wanted: readonly string[]): boolean {
    return [...this.#entries.values()].some(({ identity }) => wanted.every((scope) => identity.scopes.includes(scope)));
  }

  has(token: string): boolean {
    return this.find(token) !== null;
  }

  /** Returns whom a token stands for; null if it is not listed. */
  find(token: string): Identity | null {
    return this.ofDigest(hash("sha256", token, "buffer"));
  }

  /** The same by the digest of a token. */
  ofDigest(digest: Buffer): Identity | null {
    const entry = this.#entries.get(this.#placeOf(digest));
    return entry !== undefined && timingSafeEqual(entry.digest, digest) ? entry.identity : null;
  }

  #placeOf(digest: Buffer): string {
    return hash("sha256", Buffer.concat([this.#pepper, digest]), "base64");
  }
}
