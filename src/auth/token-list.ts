// A list of the tokens that pass, known by their SHA-256 digests. Tokens themselves are neither stored nor compared.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";

export class TokenList {
  // Digests are looked up under a name that nobody outside this process can predict, so the time of a look-up says
  // nothing about how much of a guess was right; the digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #digests = new Map<string, Buffer>();

  /** Hex, as the file has them. */
  constructor(digests: readonly string[]) {
    for (const hex of digests) {
      const digest = Buffer.from(hex, "hex");
      this.#digests.set(this.#nameOf(digest), digest);
    }
  }

  get size(): number {
    return this.#digests.size;
  }

  has(token: string): boolean {
    const digest = hash("sha256", token, "buffer");
    const listed = this.#digests.get(this.#nameOf(digest));
    return listed !== undefined && timingSafeEqual(listed, digest);
  }

  #nameOf(digest: Buffer): string {
    return hash("sha256", Buffer.concat([this.#pepper, digest]), "base64");
  }
}
