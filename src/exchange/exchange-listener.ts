// What an exchange tells whoever forwards its request.
import type { LocalReply } from "../core/local-reply.ts";

/** Implemented by what forwards an admitted request. */
export interface ExchangeListener {
  /** The client has taken what was written, so more may be written. */
  onDrain(): void;
  /** The exchange has ended: the client has left, or its response is complete. */
  onExchangeEnd(): void;
  /** Replies to the client and cancels the request, unless it has ended. */
  cancel(reply: LocalReply): void;
}
