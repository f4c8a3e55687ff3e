// A gateway in a process of its own with short timeouts and low bounds, its upstream, and what is left of its clients.
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { createSecureContext, type SecureContext } from "node:tls";
import { fileURLToPath } from "node:url";
import type { Policy } from "../../../src/core/policy.ts";
import type { Authority, Issued } from "../../support/certificates.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { type Overrides, testSettings } from "../../support/gateway.ts";
import { metric, upstreamConnections } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import type { ChildStart, Counts, Figures, Ports, Request } from "./gateway-child.ts";
import { EndingUpstream } from "./upstream.ts";

export interface Stage {
  readonly upstream: EndingUpstream;
  readonly ports: Ports;
  readonly secureContext: SecureContext;
  /** A number that is not given twice. */
  next(): number;
}

export interface StageOptions {
  /** What one client may hold: connections, streams, requests, connections to the upstream, tunnels. */
  readonly bound: number;
  readonly overrides?: Overrides;
  readonly authority: Authority;
  readonly certificate: Issued;
  readonly isUpstreamTls?: boolean;
  /** Where the gateway finds an upstream that listens on this port. */
  readonly upstreamUrl?: (port: number) => string;
}

export interface GatewayStage extends Stage {
  ask<Answer extends object>(request: Request): Promise<Answer>;
  /** Resolves when everything has ended: with no more than the counts of `before` and a few, or after some time. */
  rest(before?: Counts): Promise<Figures>;
}

/** What belongs to no client comes and goes: a scrape, a timer of the process. */
const allowed = 6;

/** Longer than any of the timers that outlive a connection, on a machine that is busy. */
const maxRestMs = 20_000;
/** It only ends a gateway that hangs: to look at the whole heap takes a second of processor time. */
const maxAnswerMs = 120_000;

export async function startStage(cleanup: Cleanup, options: StageOptions): Promise<GatewayStage> {
  const { authority, certificate, isUpstreamTls = false } = options;
  const upstream = new EndingUpstream(isUpstreamTls ? certificate : null, cleanup);
  const { upstreamUrl = (port) => (isUpstreamTls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`) } =
    options;
  const entry = fileURLToPath(new URL("gateway-child.ts", import.meta.url));
  const start: ChildStart = { upstreamUrl: upstreamUrl(await upstream.listen()), overrides: overridesOf(options) };
  const child = fork(entry, [JSON.stringify(start)], {
    execArgv: ["--expose-gc", "--disable-warning=ExperimentalWarning"],
  });
  cleanup(() => child.kill("SIGKILL"));
  const exited = once(child, "exit").then(([code]) => Promise.reject(new Error(`the gateway exited with ${code}`)));
  exited.catch(() => {});
  const answer = async (): Promise<unknown> => (await Promise.race([once(child, "message"), exited]))[0];
  const ports = (await answer()) as Ports;
  const ask = async <Answer>(request: Request): Promise<Answer> => {
    child.send(request);
    return (await within(request, answer(), maxAnswerMs)) as Answer;
  };
  const gateway = { adminUrl: `http://127.0.0.1:${ports.admin}` };
  let numbers = 0;
  return {
    upstream,
    ports,
    secureContext: createSecureContext({ ca: authority.cert }),
    next: () => numbers++,
    ask,
    async rest(before) {
      upstream.closeAll();
      await eventually("nothing is counted any more", async () => (await counted(gateway)) === 0, maxRestMs);
      const endMs = performance.now() + maxRestMs;
      for (;;) {
        const figures = await ask<Figures>("measure");
        const isOver = before === undefined || leftOver(figures.counts, before).length === 0;
        if (isOver || performance.now() > endMs) return figures;
        await sleep(250);
      }
    },
  };
}

export function leftOver(now: Counts, before: Counts): string[] {
  const kinds = Object.keys(now) as (keyof Counts)[];
  return kinds
    .filter((kind) => now[kind] > before[kind] + allowed)
    .map((kind) => `${now[kind] - before[kind]} ${kind}`);
}

/** What the gateway itself says that it has. */
async function counted(gateway: { readonly adminUrl: string }): Promise<number> {
  const { active, idle, waiting } = await upstreamConnections(gateway);
  const series = [
    "headgate_client_connections",
    'headgate_tunnels{state="open"}',
    'headgate_tunnels{state="opening"}',
    'headgate_clients_tracked{policy="slots"}',
  ];
  const figures = await Promise.all(series.map((one) => metric(gateway, one)));
  return figures.reduce((sum, figure) => sum + figure, active + idle + waiting);
}

function overridesOf({ bound, overrides = {}, authority }: StageOptions): Overrides {
  const perIp = slidingPolicy({ limit: 100_000_000, windowMs: 60_000 });
  const slots: Policy = { ...perIp, name: "slots", rate: { kind: "concurrency" }, limit: bound };
  const { upstream } = testSettings("");
  return {
    policies: [perIp, slots],
    timeouts: { headMs: 1_500, bodyMs: 500, keepAliveMs: 500 },
    // A tunnel with bytes that nobody reads keeps its place for the idle time after its client has left.
    upgrade: { maxTunnels: 8 * bound, idleTimeoutMs: 500 },
    maxBodyBytes: 20_000,
    log: { level: "error", access: false },
    extAuth: {
      http: { host: "127.0.0.1", port: 0, maxConnections: 2 * bound },
      grpc: { host: "127.0.0.1", port: 0, maxConnections: 2 * bound },
      trustedCallers: ["127.0.0.1"],
    },
    ...overrides,
    listen: { maxConnections: 4 * bound, maxConnectionsPerPeer: bound, ...overrides.listen },
    upstream: {
      connectTimeoutMs: 750,
      responseTimeoutMs: 1_500,
      bodyTimeoutMs: 1_500,
      // While connections are scarce, a body has to arrive before it gets one.
      maxConnections: 8 * bound,
      tls: { ...upstream.tls, ca: authority.certFile },
      ...overrides.upstream,
    },
  };
}
