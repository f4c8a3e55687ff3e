// Joins the pieces of a body that come within one turn of the event loop. TLS delivers one read in records of at most 16 KiB,
// DATA frames cut these again, and each piece would be a write to the upstream. The records of a read come one after the
// other, so one buffer serves all bodies of a listener: it is passed on when another body needs it, or the turn ends.

export interface Joining {
  /** The bytes are overwritten after the call. */
  passJoined(bytes: Buffer): void;
}

/** As much as one read of a socket. */
const memoryBytes = 64 * 1024;

export class TurnPieces {
  #memory: Buffer | null = null;
  #length = 0;
  #body: Joining | null = null;
  #isAwaitingEnd = false;

  /** Passes on first what another body has, or what leaves no room. */
  add(body: Joining, bytes: Buffer): void {
    if (this.#body !== body || this.#length + bytes.length > memoryBytes) this.pass();
    this.#memory ??= Buffer.allocUnsafeSlow(memoryBytes);
    this.#memory.set(bytes, this.#length);
    this.#length += bytes.length;
    this.#body = body;
    if (this.#isAwaitingEnd) return;
    this.#isAwaitingEnd = true;
    setImmediate(this.#onTurnEnd);
  }

  has(body: Joining): boolean {
    return this.#body === body;
  }

  pass(): void {
    const [body, length] = [this.#body, this.#length];
    this.#body = null;
    this.#length = 0;
    if (length > 0) body?.passJoined((this.#memory as Buffer).subarray(0, length));
  }

  readonly #onTurnEnd = (): void => {
    this.#isAwaitingEnd = false;
    this.pass();
  };
}
