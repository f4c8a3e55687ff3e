// Warnings about what clients and ingresses do: each is counted, and some are logged.
import type { Peer } from "../core/client-address.ts";
import type { SharedResource } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import type { CheckRefusal, ConnectionShedReason, Http2CloseReason } from "../core/connection-ends.ts";
import { canonicalHost, type IpAddress } from "../core/ip-address.ts";
import type { Samplers } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { PossibleProxies } from "./recent/possible-proxies.ts";
import type { ThreadRecent } from "./recent/thread-recent.ts";

export interface Warnings {
  /** An HTTP/2 connection was closed because it cost too much; `peer` is its address. */
  http2Closed(reason: Http2CloseReason, peer: string): void;
  /** A connection of a client was closed because of a limit; `peer` is the address whose own limit it was, or null. */
  connectionShed(reason: ConnectionShedReason, peer: string | null): void;
  /**
   * A check was refused without a decision; `caller` is an address. `detail` says what is wrong with the call, null if
   * the reason says it all. It contains nothing that was sent.
   */
  checkRefused(reason: CheckRefusal, caller: string, detail: string | null): void;
  /** A request or a tunnel of the client was refused or ended because other clients waited. */
  shareExceeded(resource: SharedResource, client: string): void;
  /** A peer named a client and was not believed: see `onIgnored` of RequestRules. */
  clientIgnored(peer: Peer, client: IpAddress | null): void;
}

/** How many lines of a kind are written in a second, by all threads together. */
export const allLinesPerSecond = 5;

export function createWarnings(
  samplers: Samplers,
  metrics: Metrics,
  { clock, recent = null }: { readonly clock: Clock; readonly recent?: ThreadRecent | null },
): Warnings {
  const { log } = samplers;
  const passesCheck = samplers.sampled("reason", 1000, "refused ext-auth checks left out");
  const passesShare = samplers.sampled("resource", 1000, "exceeded shares left out");
  const passesHttp2 = samplers.sampled("reason", 1000, "closed HTTP/2 connections left out");
  const passesShed = samplers.sampled("reason", 1000, "refused connections left out");
  const unreadClients = samplers.add({ perPeriod: 1, periodMs: 60_000, maxKeys: 1, report: () => {} });
  const proxies = new PossibleProxies(recent?.history.memory);
  return {
    http2Closed(reason, peer) {
      metrics.http2Closed(reason);
      if (!passesHttp2(reason)) return;
      log.warn({ reason, peer: canonicalHost(peer) }, "HTTP/2 connection closed: it cost too much");
    },
    connectionShed(reason, peer) {
      metrics.connectionShed(reason);
      if (peer === null || !passesShed(reason)) return;
      log.warn({ reason, peer }, "connection refused: too many of its peer");
    },
    checkRefused(reason, caller, detail) {
      metrics.checkRefused(reason);
      if (!passesCheck(reason)) return;
      log.warn({ reason, detail, caller: canonicalHost(caller) }, "ext-auth check refused");
    },
    shareExceeded(resource, client) {
      metrics.shareExceeded(resource);
      if (passesShare(resource)) log.warn({ resource, client }, "client over its share");
    },
    clientIgnored(from, client) {
      const { text: peer } = from;
      const nowMs = clock.monotonicMs();
      if (client === null) {
        metrics.clientUnread();
        if (!unreadClients.passes("", nowMs)) return;
        log.warn({ peer }, "clients of a trusted proxy share a quota: their addresses in its header cannot be read");
      } else if (proxies.note(from, client, nowMs)) {
        const key = "clientAddress.trustedProxies";
        log.warn({ peer, key }, "an untrusted peer names many clients: trust it only if it is your own proxy");
      }
    },
  };
}
