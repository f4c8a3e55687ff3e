// The file of a snapshot, written in one move: a reader finds the old one or the new one, whole. Synchronous,
// because it runs in a thread of its own.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** It contains addresses of clients, and the secrets by which keys are hashed. */
const ownerOnly = 0o600;

export class SnapshotFile {
  readonly #path: string;
  readonly #temporary: string;
  readonly #fd: number;
  #bytes = 0;

  /** Throws the system's error. */
  constructor(path: string, temporary: string) {
    this.#path = path;
    this.#temporary = temporary;
    this.#fd = openSync(temporary, "wx", ownerOnly);
  }

  get bytes(): number {
    return this.#bytes;
  }

  write(bytes: Buffer): void {
    for (let written = 0; written < bytes.length; ) written += writeSync(this.#fd, bytes, written);
    this.#bytes += bytes.length;
  }

  /** Puts the file in place of the one before. It stays there if the machine fails right after. */
  finish(): void {
    fsyncSync(this.#fd);
    closeSync(this.#fd);
    renameSync(this.#temporary, this.#path);
    const folder = openSync(dirname(this.#path), "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  }

  /** Leaves nothing behind. */
  drop(): void {
    rmSync(this.#temporary, { force: true });
  }
}
