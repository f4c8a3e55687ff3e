// One line a request, and the bound on those of throttled clients.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import { HeadersMemory, HeadMemory } from "../../src/core/request-head.ts";
import { createAccessLog } from "../../src/telemetry/access-log.ts";
import { changeLog, type Logger, Samplers } from "../../src/telemetry/log.ts";
import { createUpstreamLog } from "../../src/telemetry/upstream-log.ts";
import { decisionOf } from "../support/policy.ts";
import { inFull } from "../support/runs.ts";
import { FakeClock, keptLog } from "./lines.ts";
import { exchangeOf, policy } from "./scrape.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const decision = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: 0 });

const throttledAt = (endedMs: number, client = "192.0.2.1") =>
  exchangeOf({ client, endedMs, decision, status: 429, problem: "throttled", dispatchedMs: null, answeredMs: null });

const samplersOf = (log: Logger) => new Samplers(log, new FakeClock(), 5);

const setUp = (options: { maxClients?: number } = {}) => {
  const kept = keptLog();
  const samplers = samplersOf(kept.log);
  const access = createAccessLog(samplers, options.maxClients);
  const count = (msg: string) => kept.lines().filter((line) => line.msg === msg).length;
  const summaries = () => kept.lines().filter((line) => line.msg === "refused requests left out");
  return { ...kept, access, samplers, count, summaries };
};

test("a line has the time as the log writes it, from the request after a reload on", () => {
  const clock = new FakeClock();
  const { log, lines } = keptLog("info", clock, "iso");
  const access = createAccessLog(samplersOf(log));
  const iso = { level: "info", time: "iso" } as const;
  access.record(exchangeOf({}), "/v2/me");
  // In the same millisecond, of which the beginning of a line is kept.
  changeLog(log, iso, { ...iso, time: "unix" }, clock);
  access.record(exchangeOf({}), "/v2/me");
  expect(lines().map(({ time }) => time)).toEqual(["2023-11-14T22:13:25.000Z", 1_700_000_005_000]);
});

test("a request is one line with all there is to know, and neither query nor token", () => {
  const { access, lines } = setUp();
  access.record(exchangeOf({ endedMs: 1_050.12345 }), "/v2/transactions?limit=5&token=abc");
  expect(lines()).toEqual([
    {
      level: "info",
      time: 1_700_000_005_000,
      source: "proxy",
      id: "request-1",
      requestId: null,
      traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
      method: "GET",
      route: "/v2/",
      path: "/v2/transactions",
      status: 200,
      durationMs: 50.123,
      upstreamMs: 40,
      client: "192.0.2.1",
      userAgent: null,
      subject: null,
      policy: "per-ip",
      decision: "admitted",
      remaining: 99,
      auth: "accepted",
      problem: null,
      complete: true,
      bytesReceived: 90,
      bytesSent: 567,
      msg: "request",
    },
  ]);
});

test("a bound that was exceeded is named in its line, and in no other", () => {
  const { access, lines } = setUp();
  const detail = 'timeouts.bodyRate 4096 B/s: "\n';
  for (const each of [null, detail, null]) access.record(exchangeOf({ detail: each }), "/v2/me");
  expect(lines().map((line) => (line as { detail?: string }).detail)).toEqual([undefined, detail, undefined]);
});

test("whatever stands in its texts, a line is one line of JSON", () => {
  const { access, lines, written } = setUp();
  const odd = ['"', "\\", "\n", "\u2028", "\x7f", "\0", "\xe4", '","level":"error', "\\u0022"];
  for (const id of odd) access.record(exchangeOf({ requestId: id, client: id, method: id, route: id }), `/v2/${id}x`);
  for (const [i, id] of odd.entries())
    expect(lines()[i]).toMatchObject({ requestId: id, client: id, method: id, route: id });
  for (const line of written) expect(line.indexOf("\n")).toBe(line.length - 1);
});

test("an id that a request came with is in its own line alone, without a credential", () => {
  const { access, lines } = setUp();
  const rawHeaders = ["Authorization", "Bearer s3cret-token", "X-Request-Id", "x"];
  const head = { target: "/v2/x", rawHeaders, memory: new HeadMemory(new HeadersMemory()) };
  const ids = ["order/7", null, "Bearer%20abc", "of-s3cret-token"];
  for (const requestId of ids) access.record(exchangeOf({ requestId, head }), "/v2/x");
  expect(lines().map((line) => Reflect.get(line, "requestId"))).toEqual([
    ...["order/7", null, "Bearer [redacted]", "of-[redacted]"],
  ]);
});

test("a message that breaks a rule of HTTP has the rule, the line and the field, and the next one has not", () => {
  const { access, lines } = setUp();
  access.record(exchangeOf({ detail: { rule: "a folded line", line: 3, field: null } }), "/v2/me");
  access.record(exchangeOf({ detail: { rule: 'a "quoted" rule', line: null, field: "X-A" } }), "/v2/me");
  access.record(exchangeOf(), "/v2/me");
  expect(lines()).toMatchObject([
    { brokenRule: "a folded line", line: 3, field: null, msg: "request" },
    { brokenRule: 'a "quoted" rule', line: null, field: "X-A", msg: "request" },
    { msg: "request" },
  ]);
  expect(Object.keys(lines()[2] ?? {})).not.toContain("brokenRule");
});

test("nothing of one line is left in the next one", () => {
  const { access, lines } = setUp();
  const other = decisionOf({ outcome: "exempt", policy: { ...policy, name: "other" }, remaining: 0, resetMs: 0 });
  const changes: Partial<ExchangeRecord>[] = [
    { source: "ext-auth" },
    { status: 204 },
    { status: 502, problem: "upstream_failed" },
    { decision: other },
    { decision: { ...other, outcome: "observed" } },
    { auth: "skipped" },
    { complete: false },
    { id: "x".repeat(200), route: null, client: "192.0.2.2", method: "PUT", traceId: null },
    { answeredMs: null },
    { dispatchedMs: null },
    { endedMs: 2_000_000.5, answeredMs: 3_000_000_000 },
    { endedMs: 999 },
    { bytesReceived: null, bytesSent: 0 },
    { bytesReceived: 2 ** 30 - 1, bytesSent: 2 ** 30 },
    { bytesReceived: 2 ** 52 + 1, bytesSent: null },
  ];
  const records = changes.flatMap((change) => [exchangeOf(change), exchangeOf()]);
  for (const record of records) access.record(record, "/v2/me");
  for (const [i, record] of records.entries()) {
    const { startedMs, dispatchedMs, answeredMs, endedMs, decision } = record;
    const { source, id, status, problem, auth, complete, route, client, method, traceId } = record;
    const { bytesReceived, bytesSent } = record;
    expect(lines()[i]).toMatchObject({
      ...{
        source,
        id,
        status,
        problem,
        auth,
        complete,
        route,
        client,
        method,
        traceId,
        bytesReceived,
        bytesSent,
        remaining: decision.remaining,
      },
      ...{ policy: decision.policy.name, decision: decision.outcome, level: status === 502 ? "warn" : "info" },
      durationMs: Math.max(0, endedMs - startedMs),
      upstreamMs: dispatchedMs === null || answeredMs === null ? null : answeredMs - dispatchedMs,
    });
  }
});

test("a head that comes again is described in the same words, unless a reload has changed its route or client", () => {
  const { access, lines } = setUp();
  const headers = (name: string) => ["User-Agent", name];
  const memory = new HeadMemory(new HeadersMemory());
  const record = (route: string | null, client: string) =>
    access.record(exchangeOf({ head: { target: "", rawHeaders: headers("curl"), memory }, route, client }), "/v2/me");
  record("/v2/", "192.0.2.1");
  record("/v2/", "192.0.2.1");
  record(null, "192.0.2.1");
  record(null, "192.0.2.2");
  expect(lines().map((line) => [line.path, line.route, line.client, line.userAgent])).toEqual([
    ["/v2/me", "/v2/", "192.0.2.1", "curl"],
    ["/v2/me", "/v2/", "192.0.2.1", "curl"],
    ["/v2/me", null, "192.0.2.1", "curl"],
    ["/v2/me", null, "192.0.2.2", "curl"],
  ]);
});

const agentOf = (...rawHeaders: string[]) => {
  const { access, lines, written } = setUp();
  access.record(exchangeOf({ head: { target: "", rawHeaders } }), "/v2/me");
  expect(written.join("")).toMatch(/^[\x20-\x7e]*\n$/);
  return lines()[0]?.userAgent;
};

test("of a User-Agent at most 256 bytes are logged, in ASCII on one line", () => {
  expect(agentOf()).toBe(null);
  for (const agent of ["", "curl/8.5.0", 'a "b" \\ c', "\t\xff\x7f\u0085", "x".repeat(256)]) {
    expect(agentOf("user-agent", agent)).toBe(agent);
  }
  for (const length of [257, 300, 16_000])
    expect(agentOf("User-Agent", "x".repeat(length))).toBe(`${"x".repeat(253)}...`);
});

test("a token in a User-Agent is not logged, with its scheme or as the request's own", () => {
  const token = "s3cr3t.T0ken-_~+/x==";
  expect(agentOf("User-Agent", `app (Bearer ${token})`)).toBe("app (Bearer [redacted]");
  expect(agentOf("User-Agent", `basic\t${token}, "authorization":"${token}"`)).not.toContain("s3cr3t.T0ken-_~+/x==,");
  expect(agentOf("User-Agent", `app/${token}`, "Authorization", `Bearer ${token}`)).toBe("app/[redacted]");
  expect(agentOf("Authorization", "x y", "AUTHORIZATION", `T ${token}`, "User-Agent", token)).toBe("[redacted]");
  for (let before = 0; before < 300; before += 1) {
    const agent = "x".repeat(before) + token.repeat(40);
    expect(agentOf("User-Agent", agent, "Authorization", `Bearer ${token}`)).not.toContain("s3c");
  }
});

test("a User-Agent that is full of its own short token costs no more than what is logged of it", () => {
  expect(agentOf("User-Agent", "a".repeat(16_000), "Authorization", "Bearer a")).toHaveLength(256);
});

test("a method that is longer than any real one is cut", () => {
  const { access, lines } = setUp();
  for (const length of [17, 32, 33, 16_000]) access.record(exchangeOf({ method: "M".repeat(length) }), "/v2/me");
  expect(lines().map((line) => `${Reflect.get(line, "method")}`.length)).toEqual([17, 32, 35, 35]);
});

test("a request the upstream never answered has no upstream time, and a 5xx is a warning", () => {
  const { access, lines } = setUp();
  access.record(exchangeOf({ status: 502, problem: "upstream_failed", answeredMs: null, complete: false }), "/v2/me");
  expect(lines()).toMatchObject([{ level: "warn", upstreamMs: null, problem: "upstream_failed", complete: false }]);
});

test("below the level, nothing is written, counted or timed", () => {
  const { log, lines } = keptLog("error");
  const samplers = samplersOf(log);
  const access = createAccessLog(samplers);
  for (let i = 0; i < 20; i++) access.record(throttledAt(1_000), "/v2/me");
  access.record(exchangeOf({ status: 502 }), "/v2/me");
  samplers.close();
  expect([lines(), samplers.omitted, vi.getTimerCount()]).toEqual([[], 0, 0]);
});

test("of one client's throttled requests five a second are logged, and the rest summed up when the second is over", () => {
  const { access, samplers, count, summaries } = setUp();
  for (let i = 0; i < 12; i++) access.record(throttledAt(1_000 + i), "/v2/me");
  expect([count("request"), summaries()]).toEqual([5, []]);
  vi.advanceTimersByTime(980);
  expect(summaries()).toEqual([]);
  vi.advanceTimersByTime(30);
  expect(summaries()).toMatchObject([{ level: "info", client: "192.0.2.1", omitted: 7 }]);
  expect(samplers.omitted).toBe(7);
  vi.advanceTimersByTime(10_000);
  expect(summaries()).toHaveLength(1);
});

test("each client has its own five, and each second anew; seconds are half open", () => {
  const { access, count, summaries } = setUp();
  for (const client of ["a", "b"]) for (let i = 0; i < 5; i++) access.record(throttledAt(1_999.9, client), "/");
  expect([count("request"), vi.getTimerCount()]).toEqual([10, 0]);
  access.record(throttledAt(1_999.99, "a"), "/");
  expect([count("request"), vi.getTimerCount()]).toEqual([10, 1]);
  for (let i = 0; i < 6; i++) access.record(throttledAt(2_000, "a"), "/");
  expect(count("request")).toBe(15);
  expect(summaries()).toMatchObject([{ client: "a", omitted: 1 }]);
});

test("what was not throttled by the gateway is always logged: an upstream's own 429, a 401", () => {
  const { access, count } = setUp();
  for (let i = 0; i < 20; i++) {
    access.record(exchangeOf({ status: 429, endedMs: 1_000 }), "/");
    access.record(exchangeOf({ status: 401, problem: "no_token", endedMs: 1_000 }), "/");
  }
  expect(count("request")).toBe(40);
});

test("clients beyond the table's bound are left out and summed up together", () => {
  const { access, samplers, count, summaries } = setUp({ maxClients: 3 });
  for (let i = 0; i < 10; i++) access.record(throttledAt(1_000, `client-${i}`), "/");
  for (let i = 0; i < 6; i++) access.record(throttledAt(1_001, "client-0"), "/");
  expect(count("request")).toBe(3 + 4);
  samplers.close();
  samplers.close();
  expect(summaries().map(({ client, omitted }) => [client, omitted])).toEqual([
    ["client-0", 2],
    [null, 7],
  ]);
  expect([samplers.omitted, vi.getTimerCount()]).toEqual([9, 0]);
});

test("the timer of the summary does not keep the process alive", () => {
  const set = vi.spyOn(globalThis, "setTimeout");
  const { access } = setUp();
  for (let i = 0; i < 6; i++) access.record(throttledAt(1_000), "/");
  const timer: NodeJS.Timeout | undefined = set.mock.results[0]?.value;
  expect(timer?.hasRef()).toBe(false);
});

const fault = { reason: "refused", code: "ECONNREFUSED", address: "10.0.0.1:3000" } as const;

test("an upstream that is down is logged a few times a second for each reason, then summed up", () => {
  const clock = new FakeClock();
  const { log, lines } = keptLog("info", clock);
  const samplers = new Samplers(log, clock, 2);
  const failed = createUpstreamLog(samplers);
  for (let i = 0; i < 10; i++) failed({ ...fault, id: `r${i}` });
  failed({ reason: "reset", code: null, address: null, id: "r10" });
  expect(lines()).toMatchObject([
    { level: "warn", msg: "upstream failed", ...fault, id: "r0" },
    { id: "r1" },
    { reason: "reset", code: null, id: "r10" },
  ]);
  clock.nowMs += 1_000;
  failed({ ...fault, id: "r11" });
  expect(lines().slice(3)).toMatchObject([
    { msg: "upstream failures left out", reason: "refused", omitted: 8 },
    { id: "r11" },
  ]);
  expect(samplers.omitted).toBe(8);
});

test("failures of the upstream below the level are neither written nor counted as left out", () => {
  const { log, lines } = keptLog("error");
  const samplers = new Samplers(log, new FakeClock(), 1);
  const failed = createUpstreamLog(samplers);
  for (let i = 0; i < 5; i++) failed({ ...fault, id: `r${i}` });
  expect([lines(), samplers.omitted, vi.getTimerCount()]).toEqual([[], 0, 0]);
});

test("100 clients with omitted lines are reported one by one, the rest in one line, and nothing is lost", () => {
  for (const clients of [100, 101, 1_000, ...inFull([5_000])]) {
    const { access, samplers, summaries } = setUp();
    for (let i = 0; i < clients; i += 1) {
      for (let j = 0; j < 7; j += 1) access.record(throttledAt(1_000, `192.0.2.${i}`), "/");
    }
    samplers.close();
    const named = summaries().filter(({ client }) => client !== null);
    expect(named).toHaveLength(100);
    expect(named).toEqual(named.map(() => expect.objectContaining({ omitted: 2 })));
    expect(summaries().length).toBe(clients === 100 ? 100 : 101);
    expect(summaries().reduce((sum, line) => sum + Number(line["omitted"]), 0)).toBe(2 * clients);
  }
});
