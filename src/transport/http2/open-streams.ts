// Bounds the open HTTP/2 streams in the same way as connections: those of one peer on all its connections, and those of
// all peers. Until its response is sent, a stream takes as much memory as an HTTP/1.1 connection.
import type { Peer } from "../../core/client-address.ts";
import { clientShare } from "../../core/client-share.ts";
import type { Http2ResetReason } from "../../core/connection-ends.ts";
import type { StreamBounds } from "../../core/settings.ts";

/** A reload replaces the bounds. */
interface Settings {
  readonly current: { readonly streams: StreamBounds };
}

export class OpenStreams {
  readonly #settings: Settings;
  readonly #byPeer = new Map<string, number>();
  #count = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Adds a stream, or returns why it is refused. A trusted proxy has no bound of its own: it serves many clients. */
  add({ key, isTrusted }: Peer): Exclude<Http2ResetReason, "unread"> | null {
    const { max } = this.#settings.current.streams;
    const ofPeer = this.#byPeer.get(key) ?? 0;
    if (this.#count >= max) return "total";
    if (!isTrusted && ofPeer >= this.#boundOfPeer()) return "per_peer";
    this.#byPeer.set(key, ofPeer + 1);
    this.#count += 1;
    return null;
  }

  remove({ key }: Peer): void {
    this.#count -= 1;
    const left = (this.#byPeer.get(key) ?? 0) - 1;
    if (left > 0) this.#byPeer.set(key, left);
    else this.#byPeer.delete(key);
  }

  /** Returns whether the peer has more than half of the streams that it may have. */
  isHalfFull({ key, isTrusted }: Peer): boolean {
    return !isTrusted && (this.#byPeer.get(key) ?? 0) * 2 > this.#boundOfPeer();
  }

  #boundOfPeer(): number {
    const { max, maxPerPeer } = this.#settings.current.streams;
    return Math.min(maxPerPeer, clientShare(max - this.#count, max));
  }
}
