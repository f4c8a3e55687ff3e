// A bug while deciding, at once or later: the client gets a whole answer with its fields, and the process goes on.
import { expect, test } from "vitest";
import { readPeer } from "../../src/core/client-address.ts";
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import { ResponseFields } from "../../src/core/fields.ts";
import type { Verdict } from "../../src/core/request-head.ts";
import { untouched } from "../../src/core/sliding-window.ts";
import { TrafficServer } from "../../src/listener/traffic-server.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { exchange, parseResponse, valuesOf } from "../support/raw-client.ts";

const cleanup = useCleanup();
const policy = { name: "per-ip", limit: 100, windowMs: 60_000, maxClients: 10 };

async function serve(decide: () => Verdict | Promise<Verdict>) {
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const ended: ExchangeRecord[] = [];
  const server = new TrafficServer({
    upstreamUrl: "http://127.0.0.1:9",
    proxyProtocol: false,
    onProxyHeaderRefused: () => {},
    bounds: { maxConnections: 10, maxConnectionsPerPeer: 10, maxRequestsPerConnection: 10 },
    onConnectionShed: () => {},
    tls: null,
    upgradeProtocols: new Set<string>(),
    headTimeoutMs: 1_000,
    stallTimeoutMs: 1_000,
    keepAliveTimeoutMs: 1_000,
    fields: new ResponseFields({ clock, kinds: ["standard", "legacy"], realm: "finance" }),
    nowMs: clock.monotonicMs,
    readPeer: (address) => readPeer(address, { header: "x-forwarded-for", trustedProxies: [], ipv6Prefix: 64 }),
    decide,
    observe: () => untouched(policy, clock.nowMs),
    requestId: () => "id",
    forward: () => {},
    onEnd: (over) => void ended.push(over),
    onFailure: (error) => void failures.push(error),
  });
  const { port } = await server.listen("127.0.0.1", 0);
  cleanup(() => server.drain(0));
  return { port, failures, ended };
}

test.each([
  [
    "throws",
    () => {
      throw new Error("a bug");
    },
  ],
  ["rejects", () => Promise.reject(new Error("a bug"))],
] as const)("a decision that %s is a 500 with every field, and told", async (_, decide) => {
  const { port, failures, ended } = await serve(decide);
  const response = parseResponse(await exchange(port, "GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n"));
  expect(response.status).toBe(500);
  expect(valuesOf(response.rawHeaders, "RateLimit-Limit")).toEqual(["100"]);
  expect(valuesOf(response.rawHeaders, "X-RateLimit-Remaining")).toEqual(["100"]);
  expect(valuesOf(response.rawHeaders, "Connection")).toEqual(["close"]);
  expect(response.body).not.toContain("a bug");
  expect(failures).toEqual([new Error("a bug")]);
  expect(ended).toMatchObject([{ status: 500, problem: "internal" }]);
});
