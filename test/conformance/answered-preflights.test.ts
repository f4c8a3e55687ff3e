// Browsers, with `cors.preflights: answer`: the gateway answers the preflights of a listed origin on every carrier of traffic, and
// a page can read the quota in the upstream's responses, whoever answers its preflights.
import { describe, expect, test } from "vitest";
import { stageDecision } from "../ext-auth/stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const page = "https://app.example";
const cors = { origins: [page], preflights: "answer" } as const;
const policies = [slidingPolicy({ limit: 2, windowMs: 60_000 })];
const exposed =
  "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, " +
  "Retry-After, Date, X-Request-Id";
const varies = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

const asked = `Origin: ${page}\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization,x-a\r\n`;
const preflight = (target = "/v2/x"): string => `OPTIONS ${target} HTTP/1.1\r\nHost: a\r\n${asked}\r\n`;
const call = (origin = page, target = "/v2/x"): string =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nOrigin: ${origin}\r\n\r\n`;

const named = (rawHeaders: readonly string[], pattern: RegExp): string[][] =>
  rawHeaders.flatMap((name, i) =>
    i % 2 === 0 && pattern.test(name) ? [[name.toLowerCase(), rawHeaders[i + 1] ?? ""]] : [],
  );
const corsFields = (rawHeaders: readonly string[]): string[][] => named(rawHeaders, /^(?:access-control-|vary$)/i);

const answered = [
  ["access-control-allow-origin", page],
  ["access-control-expose-headers", exposed],
  ["vary", varies],
  ["access-control-allow-methods", "GET"],
  ["access-control-allow-headers", "authorization, x-a"],
  ["access-control-max-age", "600"],
];
const refused = [
  ["access-control-allow-origin", page],
  ["access-control-expose-headers", exposed],
  ["vary", "Origin"],
];
const upstreamCors = "Access-Control-Allow-Origin: *\r\n";
const readByPage = [
  ["access-control-allow-origin", "*"],
  ["access-control-expose-headers", exposed],
];

async function start(overrides: Overrides = {}, fields = upstreamCors) {
  const stage = await stageRaw(cleanup, (socket) => void socket.write(response("ok", fields)), {
    ...{ cors, policies },
    ...overrides,
  });
  return { ...stage, ask: asker(() => stage.connect()) };
}

function asker(connect: () => RawConnection) {
  const client = connect();
  return (bytes: string) => client.ask(bytes);
}

describe("a preflight of a listed origin is answered", () => {
  test("204, spends nothing, and leaves the calls to the limit and a readable 429", async () => {
    const { ask, gateway, upstream } = await start();
    const seen: (string | number)[] = [];
    for (const remaining of [2, 1, 0]) {
      const response = await ask(preflight());
      expect([response.status, response.body, corsFields(response.rawHeaders)]).toEqual([204, "", answered]);
      expectContractFields(response, { limit: 2, remaining });
      expect(named(response.rawHeaders, /^(?:content-length|retry-after)$/i)).toEqual([]);
      seen.push(response.status);
      const { status, rawHeaders } = await ask(call());
      seen.push(status);
      expect(corsFields(rawHeaders)).toEqual(status === 200 ? readByPage : refused);
      expect(valuesOf(rawHeaders, "Retry-After")).toHaveLength(status === 429 ? 1 : 0);
    }
    expect(seen).toEqual([204, 200, 204, 200, 204, 429]);
    expect(upstream.bytes()).not.toContain("OPTIONS");
    const answers = gateway.logLines.filter(({ method }) => method === "OPTIONS");
    expect(answers).toHaveLength(3);
    expect(answers[0]).toMatchObject({ route: "/v2/", status: 204, problem: null, auth: "skipped" });
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="observed"}')).toBe(3);
    expect(await metric(gateway, 'headgate_refusals_total{reason="throttled"}')).toBe(1);
  });

  test("429 beyond the budget for refusals, which its page's origin may read", async () => {
    const { ask, upstream } = await start({ refusals: { perSecond: 1, burst: 1 } });
    expect((await ask(preflight())).status).toBe(204);
    const { status, rawHeaders } = await ask(preflight());
    expect([status, corsFields(rawHeaders)]).toEqual([429, refused]);
    expect(valuesOf(rawHeaders, "Retry-After")).toEqual(["1"]);
    expect(upstream.bytes()).toBe("");
  });

  test("over HTTP/2, where a page can read the quota of an admitted call, too", async () => {
    const { ca, overrides } = withTls({ cors, policies });
    const { gateway } = await start(overrides);
    const client = new Http2Client(gateway.traffic.port, ca, cleanup);
    const fields = {
      ...{ authorization: [], origin: page, "access-control-request-method": "GET" },
      "access-control-request-headers": "authorization,x-a",
    };
    const first = await client.ask({ method: "OPTIONS", fields });
    expect([first.status, corsFields(first.rawHeaders)]).toEqual([204, answered]);
    const { status, rawHeaders } = await client.ask({ fields: { origin: page } });
    expect([status, corsFields(rawHeaders)]).toEqual([200, readByPage]);
  });

  test("as soon as a reload says so, but for other paths than those of routes", async () => {
    const forward = { ...cors, preflights: "forward" } as const;
    const { ask, gateway, upstream } = await start({ cors: forward, unmatched: "proxy", quota: { path: "/quota" } });
    expect(corsFields((await ask(preflight())).rawHeaders)).toEqual(readByPage);
    const settings = testSettings(upstream.url, {
      ...{ cors, policies, unmatched: "proxy", quota: { path: "/quota" }, drain: { timeoutMs: 0 } },
    });
    expect(await gateway.reload(settings)).toMatchObject({ ok: true, changed: ["cors.preflights"] });
    expect(corsFields((await ask(preflight())).rawHeaders)).toEqual(answered);
    expect((await ask(preflight("/page"))).status).toBe(200);
    expect((await ask(preflight("*"))).status).toBe(204);
    const quota = await ask(preflight("/quota"));
    const ofQuota = answered.with(3, ["access-control-allow-methods", "GET, HEAD"]);
    expect([quota.status, corsFields(quota.rawHeaders)]).toEqual([
      204,
      ofQuota.with(4, ["access-control-allow-headers", "Authorization"]),
    ]);
    expect(upstream.bytes().match(/OPTIONS \S+/g)).toEqual(["OPTIONS /v2/x", "OPTIONS /page"]);
  });

  test("not for an ingress that asks: it may forward the preflight, which is charged", async () => {
    const stage = await stageDecision(cleanup, {}, { cors, policies });
    const named = `X-Forwarded-For: 192.0.2.1\r\nX-Original-Method: OPTIONS\r\nX-Original-URI: /v2/x\r\n`;
    const statuses: number[] = [];
    for (let i = 0; i < 3; i += 1) statuses.push((await stage.ask("/auth-request", named + asked)).status);
    expect(statuses).toEqual([200, 200, 429]);
  });
});

test("a page reads the quota in what the upstream lets it read, beside the upstream's own names", async () => {
  const own = "Access-Control-Expose-Headers: X-Own\r\n";
  const cases: [fields: string, origin: string, expected: string[][]][] = [
    [
      `access-control-ALLOW-origin: ${page}\r\n${own}`,
      page,
      [["access-control-expose-headers", "X-Own"], ...readByPage],
    ],
    [
      `${upstreamCors}Access-Control-Allow-Credentials: true\r\n`,
      page,
      [["access-control-allow-credentials", "true"], ...readByPage],
    ],
    // It lets no page of another origin read it, or the origin is not listed.
    [own, page, [["access-control-expose-headers", "X-Own"]]],
    ["X-A: Access-Control-Allow-Origin: *\r\n", page, []],
    [upstreamCors, "https://b.example", [["access-control-allow-origin", "*"]]],
  ];
  const { connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      const [fields = ""] = cases[Number(/^GET \/v2\/(\d)/.exec(data.toString())?.[1])] ?? [];
      socket.write(response("ok", fields));
    },
    { cors: { origins: [page] } },
  );
  const ask = asker(connect);
  for (const [i, [, origin, expected]] of cases.entries()) {
    const { status, rawHeaders } = await ask(call(origin, `/v2/${i}`));
    const got = corsFields(rawHeaders).map(([name, value]) => [name, value === page ? "*" : value]);
    expect([i, status, got.toSorted()]).toEqual([i, 200, expected.toSorted()]);
  }
});
