// Several gateways, each a process of its own, that a test kills, stops and replaces.
import type { Cleanup } from "../support/cleanup.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import type { Ports } from "./traffic.ts";

/** Of the tests' policies: long enough for the delays of a busy machine, short enough for a few of them in a test. */
export const windowMs = Number(process.env["HEADGATE_WINDOW_MS"] ?? 2_000);

/** Each policy has a path of its own, but the last two, which apply together. Below 1,000: asked one by one. */
export const limits = { small: 100, large: 2_000, minute: 300, slots: 5, few: 5, day: 40, both: 60, all: 100 } as const;

const window = `${windowMs}ms`;
const policies = [
  { name: "small", limit: limits.small, window, match: { paths: ["/v1/small/"] } },
  { name: "large", limit: limits.large, window, match: { paths: ["/v1/large/"] } },
  { name: "few", limit: limits.few, window, match: { paths: ["/v1/few/"] } },
  { name: "day", limit: limits.day, window: "1d", match: { paths: ["/v1/day/"] } },
  { name: "minute", limit: limits.minute, per: "minute", match: { paths: ["/v1/minute/"] } },
  { name: "slots", concurrency: limits.slots, match: { paths: ["/v1/slots/"] } },
  { name: "both", limit: limits.both, window, match: { paths: ["/v1/both/"] } },
  { name: "all", limit: limits.all, window, key: [], match: { paths: ["/v1/both/"] } },
];

export interface Fleet {
  readonly gateways: readonly GatewayProcess[];
  readonly ports: Ports;
  /** Puts another one into its place. The new one gets its connections from now on. */
  replace(place: number, gateway: GatewayProcess): void;
  start(settings?: readonly string[]): Promise<GatewayProcess>;
}

/**
 * `settings`: as `--set` takes them. The clients need no token, and none is refused for how often it connects, nor when it sends
 * at once what a machine that stood still has kept it from sending.
 */
export async function startFleet(
  cleanup: Cleanup,
  upstreamUrl: string,
  count: number,
  settings: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Fleet> {
  const bounds = ["listen.maxConnectionsPerPeer=10000", "upstream.maxConnections=10000"];
  // By default 2 s, for which a machine may stand still while something connects.
  const patience = "upstream.connectTimeout=30s";
  const fixed = [`policies=${JSON.stringify(policies)}`, "auth.mode=off", patience, ...bounds];
  const start = (more: readonly string[] = []) =>
    startGatewayProcess(cleanup, upstreamUrl, [...fixed, ...settings, ...more], { env });
  const gateways = await Promise.all(Array.from({ length: count }, () => start()));
  return {
    gateways,
    ports: () => gateways.map(({ port }) => port),
    replace: (place, gateway) => void gateways.splice(place, 1, gateway),
    start,
  };
}
