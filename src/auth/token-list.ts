// Mode `tokens`: a list of the tokens that pass, known by their SHA-256 digests. The tokens themselves are neither stored
// nor compared.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Authenticator } from "../core/authenticator.ts";
import type { Watched } from "../core/file-group.ts";
import { presence } from "./presence.ts";

export function createTokenListAuthenticator(file: Watched<TokenList>): Authenticator {
  return {
    authenticate(credential) {
      if (credential.kind !== "token") return presence(credential);
      return file.value.has(credential.token) ? "accepted" : "invalid";
    },
    tokens: () => ({ listed: file.value.size, isCurrent: file.isCurrent }),
    close: () => file.close(),
  };
}

export class TokenList {
  // Digests are looked up by a name that nobody outside this process can predict, so the time of a lookup does not show
  // how much of a guess was right. The digests themselves are then compared in constant time.
  readonly #pepper = randomBytes(32);
  readonly #digests = new Map<string, Buffer>();

  /** `digests` are in hex. */
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
