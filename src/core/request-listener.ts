// What carries a request to the upstream is told of its client through this, whatever carries the client's side.
import type { LocalReply } from "./local-reply.ts";

export interface RequestListener {
  /** What was written has left, and more may follow. */
  onDrain(): void;
  onClientGone(): void;
  /** Answers a problem and takes the request back from the upstream, unless it is over. */
  cancel(problem: LocalReply): void;
}
