// The connections to a decision listener, bounded: those of callers by the configuration, those of peers that have not
// shown yet that they may ask by so few that they can crowd nobody out.
import type { Socket } from "node:net";

const maxStrangers = 64;

export class CallerConnections {
  readonly #maxCallers: number;
  readonly #callers = new Set<Socket>();
  readonly #strangers = new Set<Socket>();

  constructor(maxCallers: number) {
    this.#maxCallers = maxCallers;
  }

  /** False if it is one too many, and not kept. */
  add(socket: Socket, isCaller: boolean): boolean {
    const [kind, max] = isCaller ? [this.#callers, this.#maxCallers] : [this.#strangers, maxStrangers];
    if (kind.size >= max) return false;
    kind.add(socket);
    socket.once("close", () => {
      this.#callers.delete(socket);
      this.#strangers.delete(socket);
    });
    return true;
  }

  /** It has shown a secret. Where there is no place among the callers it keeps its own. */
  promote(socket: Socket): void {
    if (this.#callers.size >= this.#maxCallers || !this.#strangers.delete(socket)) return;
    this.#callers.add(socket);
  }

  destroyAll(): void {
    for (const socket of [...this.#callers, ...this.#strangers]) socket.destroy();
  }
}
