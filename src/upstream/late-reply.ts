// Replies to a request that cannot be forwarded. The packet that is being read may contain the end of the request's
// body. If the body is read to its end before the reply is sent, the client's connection can stay open.
import type { LocalReply } from "../core/local-reply.ts";
import type { Exchange } from "../exchange/exchange.ts";

export function replyAfterPacket(exchange: Exchange, reply: LocalReply): void {
  if (exchange.hasBody) setImmediate(replyNow, exchange, reply);
  else replyNow(exchange, reply);
}

function replyNow(exchange: Exchange, reply: LocalReply): void {
  // In the meantime the request's body may have been found malformed, and answered as such.
  if (!exchange.isEnded && exchange.problem === null) exchange.localReply(reply);
}
