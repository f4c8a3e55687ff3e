// Starts an exchange on its connection. If its peer has as many connections with a request as it may have, refuses it: then
// the connection stays idle, and may be closed for a new one.
import { shareReply } from "../core/local-reply.ts";
import type { ConnectionPlace } from "./connection.ts";
import type { Exchange } from "./exchange.ts";

export function startOn(place: ConnectionPlace | null, exchange: Exchange): void {
  if (place === null || place.begin()) exchange.start();
  else exchange.reject(shareReply("client_connections"));
}
