// What all carriers of requests have in common for the endings: the bytes of a request, whole and in part.
import type { Peer } from "./peer.ts";

export interface Carrier {
  /** What comes before the first request of a connection. */
  readonly prelude: (peer: Peer) => Promise<void>;
  readonly request: (target: string) => string | Buffer;
  /** A request with a part of its body. */
  readonly upload: (target: string) => string | Buffer;
  readonly partOfHead: string | Buffer;
  /** The only request of its connection. */
  readonly last: (target: string) => string | Buffer;
  /** Resolves when the connection is closed after the answer to `last`. */
  readonly finish: (peer: Peer) => Promise<void>;
}
