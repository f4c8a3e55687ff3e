// The traffic port around a runtime that a test makes: the real listener and transports, and no pipeline or upstream.
import type { Socket } from "node:net";
import { readPeer } from "../../src/core/client-address.ts";
import { CounterKey } from "../../src/core/counter-key.ts";
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import { cidrOf } from "../../src/core/ip-address.ts";
import type { ErrorFormat } from "../../src/core/local-reply.ts";
import { readMessage } from "../../src/core/message-check.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { Policy } from "../../src/core/policy.ts";
import type { ParsedRequest, Verdict } from "../../src/core/request-head.ts";
import { ResponseFields } from "../../src/core/response-fields.ts";
import type { Replaceable, TrafficSettings } from "../../src/core/settings.ts";
import { type Runtime, RuntimeRef } from "../../src/exchange/exchange.ts";
import { TokenEnds } from "../../src/exchange/token-ends.ts";
import { requestBounds } from "../../src/http1/request-head.ts";
import { LocalPeerConnections } from "../../src/listener/connection-limiter.ts";
import { ConnectionTable, LocalConnectionCount } from "../../src/listener/connection-table.ts";
import { TrafficListener } from "../../src/listener/traffic-listener.ts";
import { http2Opener } from "../../src/transport/http2/http2-connection.ts";
import type { TransportOptions } from "../../src/transport/transport-options.ts";
import { Transports } from "../../src/transport/transports.ts";
import { FakeClock } from "./clock.ts";
import { decisionOf, slidingPolicy } from "./policy.ts";
import { testReads, testTextWrites } from "./reads.ts";

const policy: Policy = slidingPolicy({ limit: 100, windowMs: 60_000 });

const quota = (nowMs: number) => decisionOf({ outcome: "observed", policy, remaining: 100, resetMs: nowMs + 60_000 });

export interface TestTraffic {
  readonly clock: FakeClock;
  readonly listener: TrafficListener;
  readonly runtime: RuntimeRef;
  /** Bugs, as they were told. */
  readonly failures: unknown[];
  /** Exchanges that are over. */
  readonly ended: ExchangeRecord[];
  /** Speaks HTTP/2 on a plain socket, as behind a TLS handshake. */
  openHttp2(socket: Socket): void;
}

interface TrafficRules {
  readonly maxRequestsPerConnection?: number;
  /** CIDR. */
  readonly trustedProxies?: readonly string[];
  readonly errorFormat?: ErrorFormat;
}

const fieldSettings = { fields: ["standard", "legacy"], resetFormat: "epoch", auth: { realm: "finance" } } as const;

/** Decides by `runtime.decide` and forwards nowhere, unless `runtime` says otherwise. */
export function createTestTraffic(
  runtime: Partial<Runtime>,
  { maxRequestsPerConnection = 10, trustedProxies = [], errorFormat = "v2" }: TrafficRules = {},
): TestTraffic {
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const ended: ExchangeRecord[] = [];
  const ref = new RuntimeRef({
    source: "proxy",
    fields: new ResponseFields({ ...fieldSettings, errors: { format: errorFormat } }, clock, null),
    tokenEnds: new TokenEnds(clock),
    subjectOf: () => null,
    nowMs: clock.monotonicMs,
    newId: () => "id",
    keepsIdOf: () => true,
    decide: () => admitted(clock.nowMs),
    mayReject: () => true,
    peekQuota: () => quota(clock.nowMs),
    observeQuota: () => quota(clock.nowMs),
    refreshQuota: () => quota(clock.nowMs),
    forward: () => {},
    onEnd: (record) => void ended.push(record),
    onFailure: (error) => void failures.push(error),
    ...runtime,
  });
  const clientAddress = {
    header: "x-forwarded-for",
    trustedProxies: new NetworkSet(trustedProxies.map(cidrOf)),
    ipv6Prefix: 64,
  } as const;
  const bounds = {
    maxConnections: 100,
    maxConnectionsPerPeer: 100,
    newConnectionsPerPeer: 1_000_000,
    maxRequestsPerConnection,
  };
  const settings: Replaceable<TrafficSettings> = {
    current: {
      ...{ headTimeoutMs: 1_000, keepAliveTimeoutMs: 1_000, lingerMs: 1_000, stallTimeoutMs: 1_000 },
      bounds,
      headBounds: requestBounds,
      newConnections: { burst: 1_000_100, perSecond: 1_000_000 },
      streams: { max: 100, maxPerPeer: 100 },
      upgradeProtocols: new Set(),
      clientAddress,
      proxyScheme: "http",
      tls: null,
    },
  };
  const options: TransportOptions = {
    runtime: ref,
    settings,
    reads: testReads,
    textWrites: testTextWrites,
    http2: { closeMs: 250, onClosed: () => {}, onReset: () => {} },
  };
  const count = new LocalConnectionCount();
  const connections = new ConnectionTable(settings, count, clock.monotonicMs, () => {});
  const opener = new Transports(options, connections, http2Opener(options));
  const listener = new TrafficListener(
    {
      proxyProtocol: false,
      settings,
      onProxyHeaderRefused: () => {},
      onConnectionShed: () => {},
      handshakes: null,
      count,
      peers: new LocalPeerConnections(),
      nowMs: clock.monotonicMs,
      onFailure: ref.current.onFailure,
    },
    connections,
    opener,
  );
  return {
    clock,
    listener,
    runtime: ref,
    failures,
    ended,
    openHttp2(socket) {
      const peer = readPeer(socket.remoteAddress, clientAddress);
      const accepted = { socket, tcp: socket, peer, scheme: "https" } as const;
      opener.openHttp2(accepted);
    },
  };
}

/** The verdict on a good request of which one has been charged. */
export function admitted(nowMs: number): Verdict {
  const parsed: ParsedRequest = {
    client: "a",
    counterKey: new CounterKey(0, 0, 0, 1, false),
    target: { original: "/v2/x", path: "/v2/x", authority: null },
    path: { kind: "route", route: "/v2/" },
    route: "/v2/",
    message: readMessage({ method: "GET", target: "/v2/x", httpVersion: "1.1", rawHeaders: ["Host", "a"] }),
    upstreamTarget: "/v2/x",
  };
  const decision = { ...quota(nowMs), outcome: "admitted" as const, remaining: 99 };
  return { parsed, decision, auth: "accepted", identity: null, localReply: null };
}
