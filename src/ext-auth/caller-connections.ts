// Bounds the connections to a listener for checks. Trusted callers have a bound of their own, so that unverified peers cannot
// keep them out.
import type { Socket } from "node:net";

const maxUnverified = 64;

export class CallerConnections {
  readonly #maxTrusted: number;
  readonly #trusted = new Set<Socket>();
  readonly #unverified = new Set<Socket>();

  constructor(maxTrusted: number) {
    this.#maxTrusted = maxTrusted;
  }

  /** False if the connection exceeds its bound; it is not kept then. */
  add(socket: Socket, isTrusted: boolean): boolean {
    const [kind, max] = isTrusted ? [this.#trusted, this.#maxTrusted] : [this.#unverified, maxUnverified];
    if (kind.size >= max) return false;
    kind.add(socket);
    socket.once("close", () => {
      this.#trusted.delete(socket);
      this.#unverified.delete(socket);
    });
    return true;
  }

  /** Counts a connection that has shown a secret among the trusted ones, unless those are at their bound. */
  promote(socket: Socket): void {
    if (this.#trusted.size >= this.#maxTrusted || !this.#unverified.delete(socket)) return;
    this.#trusted.add(socket);
  }

  destroyAll(): void {
    for (const socket of [...this.#trusted, ...this.#unverified]) socket.destroy();
  }
}
