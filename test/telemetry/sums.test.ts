// What the pages promise of sums holds after traffic of every kind: each request is in each of its families once.
import { connect } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { exchange } from "../support/raw-client.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

const from = (client: string) => `Host: a\r\nX-Forwarded-For: ${client}\r\nAuthorization: Bearer t\r\n`;
const close = "Connection: close\r\n\r\n";
const hammer = `GET /v2/x HTTP/1.1\r\n${from("192.0.2.1")}${close}`;
const requests = [
  ...Array(5).fill(hammer),
  `GET /v1/x HTTP/1.1\r\n${from("192.0.2.2")}${close}`,
  `HEAD /v1/x HTTP/1.1\r\n${from("192.0.2.2")}${close}`,
  `POST /v1/x HTTP/1.1\r\n${from("192.0.2.3")}Content-Length: 2\r\n${close}hi`,
  `PROPFIND /v1/x HTTP/1.1\r\n${from("192.0.2.3")}${close}`,
  `GET /v2/broken HTTP/1.1\r\n${from("192.0.2.4")}${close}`,
  `GET /v2/x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.5\r\n${close}`,
  `GET /nowhere HTTP/1.1\r\n${from("192.0.2.5")}${close}`,
  `GET /v1/..%2fv2/x HTTP/1.1\r\n${from("192.0.2.5")}${close}`,
  `TRACE /v2/x HTTP/1.1\r\n${from("192.0.2.5")}${close}`,
  `OPTIONS * HTTP/1.1\r\n${from("192.0.2.5")}${close}`,
  `GET /v2/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n${close}`,
  "GARBAGE\r\n\r\n",
];
const check = (target: string, client: string) =>
  `GET /auth-request HTTP/1.1\r\nX-Original-Method: GET\r\nX-Original-URI: ${target}\r\n${from(client)}${close}`;
const checks = [...Array(4).fill(check("/v2/x", "192.0.2.6")), check("/nowhere", "192.0.2.7"), check("", "192.0.2.7")];

test("requests by outcome, durations, decisions and token checks add up over mixed traffic", async () => {
  const upstream = await startRawUpstream((socket, data) => {
    if (data.includes("broken")) socket.destroy();
    else if (!data.includes("slow")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  cleanup(() => upstream.close());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      policies: [slidingPolicy({ limit: 3, windowMs: 60_000 })],
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 50 }, trustedCallers: ["127.0.0.1"] },
    },
  });
  cleanup(() => gateway.close());
  const left = connect(gateway.traffic.port, "127.0.0.1").on("error", () => {});
  left.write(`GET /v2/slow HTTP/1.1\r\n${from("192.0.2.8")}${close}`);
  await eventually("the upstream has it", () => upstream.bytes().includes("slow"));
  left.destroy();
  await Promise.all([
    ...requests.map((bytes) => exchange(gateway.traffic.port, bytes)),
    ...checks.map((bytes) => exchange(gateway.extAuth?.port ?? 0, bytes)),
  ]);
  const lines = () => gateway.logLines.filter(({ msg }) => msg === "request");
  await eventually("all are over", () => lines().length >= requests.length + 1 + checks.length - 1);
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const sum = (name: string, ...labels: readonly string[]) =>
    text
      .split("\n")
      .filter((line) => /^\w+/.exec(line)?.[0] === name && labels.every((label) => line.includes(label)))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  const decidedChecks =
    sum("headgate_ext_auth_checks_total", '"admitted"') + sum("headgate_ext_auth_checks_total", '"denied"');
  const proxied = sum("headgate_requests_total");
  const outcomes = (...names: readonly string[]) =>
    names.reduce((total, name) => total + sum("headgate_decisions_total", `outcome="${name}"`), 0);

  expect([proxied, decidedChecks, proxied + decidedChecks]).toEqual([
    requests.length + 1,
    checks.length - 1,
    lines().length,
  ]);
  expect(sum("headgate_ext_auth_checks_total", '"malformed"')).toBe(1);
  // "Each request has one result of the bearer check, and a decision of each policy."
  expect(sum("headgate_auth_total")).toBe(proxied + decidedChecks);
  expect(sum("headgate_decisions_total")).toBe(proxied + decidedChecks);
  for (const route of ["/v1/", "/v2/", "none"]) {
    const label = `route="${route}"`;
    expect(sum("headgate_request_duration_seconds_count", label)).toBe(sum("headgate_requests_total", label));
    expect(sum("headgate_request_duration_seconds_bucket", label, 'le="+Inf"')).toBe(
      sum("headgate_requests_total", label),
    );
  }
  expect(sum("headgate_remaining_ratio_count")).toBe(outcomes("admitted", "throttled"));
  expect(sum("headgate_refusals_total", '"throttled"')).toBe(outcomes("throttled"));
  expect(outcomes("throttled")).toBe(2 + 1);
  expect(sum("headgate_refusals_total")).toBe(lines().filter(({ problem }) => problem !== null).length);
  // Without a sent head, the gateway has no share of the time.
  expect(sum("headgate_requests_total", 'status_class="none"')).toBeGreaterThan(0);
  expect(sum("headgate_overhead_seconds_count")).toBe(
    proxied + decidedChecks - sum("headgate_requests_total", 'status_class="none"'),
  );
});
