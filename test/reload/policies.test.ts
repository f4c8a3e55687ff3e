// Policies over a reload: what was counted stays counted under the same name, kind and key, whatever else changes.
import { expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const windowMs = 60_000;

const perIp = (limit: number, others: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit, windowMs }),
  ...others,
});

async function stage(...policies: Policy[]) {
  const clock = new FakeClock();
  const held: (() => void)[] = [];
  const { upstream, gateway, connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      const answer = (): void => void socket.write(response("ok"));
      if (data.includes("/v2/slow")) held.push(answer);
      else answer();
    },
    { policies },
    clock,
  );
  const client = connect();
  const ask = async (on: RawConnection = client, target = "/v2/x"): Promise<FramedResponse> => {
    on.write(request(target));
    return on.read();
  };
  const spend = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i += 1) expect((await ask()).status).toBe(200);
  };
  const reload = (overrides: Parameters<typeof testSettings>[1]) =>
    gateway.reload(testSettings(upstream.url, { drain: { timeoutMs: 0 }, ...overrides }));
  return { clock, gateway, client, connect, held, ask, spend, reload };
}

const field = ({ rawHeaders }: FramedResponse, name: string): string | undefined => valuesOf(rawHeaders, name)[0];

test("60 of 100 used, then a limit of 50: 429 until eleven have expired; then 100 again: 40 are left", async () => {
  const { clock, ask, spend, reload } = await stage(perIp(100));
  // Two a second, the first one now.
  for (let i = 0; i < 60; i += 1) {
    await spend(1);
    clock.advance(500);
  }
  expect(await reload({ policies: [perIp(50)] })).toMatchObject({ changed: ["policies.per-ip"], reset: [] });
  const refused = await ask();
  expect([refused.status, field(refused, "RateLimit-Limit"), field(refused, "RateLimit-Remaining")]).toEqual([
    429,
    "50",
    "0",
  ]);
  // 30 s have passed. The eleventh was admitted after 5 s and expires after 65 s.
  expect(field(refused, "Retry-After")).toBe("35");
  clock.advance(34_999);
  expect((await ask()).status).toBe(429);
  clock.advance(1);
  expect((await ask()).status).toBe(200);
  expect((await ask()).status).toBe(429);
  expect(await reload({ policies: [perIp(100)] })).toMatchObject({ changed: ["policies.per-ip"], reset: [] });
  // 49 of the 60 and one more are younger than the window.
  const answer = await ask();
  expect([answer.status, field(answer, "RateLimit-Remaining")]).toEqual([200, "49"]);
});

test("60 of 100 used, down to 50 and back to 100 at once: 40 are left", async () => {
  const { ask, spend, reload } = await stage(perIp(100));
  await spend(60);
  await reload({ policies: [perIp(50)] });
  const refused = await ask();
  expect([refused.status, field(refused, "Retry-After")]).toEqual([429, "60"]);
  await reload({ policies: [perIp(100)] });
  expect(field(await ask(), "RateLimit-Remaining")).toBe("39");
});

test("a longer window counts what is stored, a shorter one frees it", async () => {
  const { clock, ask, spend, reload } = await stage(perIp(10));
  await spend(10);
  clock.advance(30_000);
  await reload({ policies: [perIp(10, { rate: { kind: "sliding", windowMs: 3_600_000 } })] });
  expect(field(await ask(), "Retry-After")).toBe("3570");
  await reload({ policies: [perIp(10, { rate: { kind: "sliding", windowMs: 30_000 } })] });
  expect(field(await ask(), "RateLimit-Remaining")).toBe("9");
});

test.each<[what: string, Policy]>([
  ["name", perIp(10, { name: "another" })],
  ["key", perIp(10, { key: [{ kind: "client" }, { kind: "method" }] })],
  ["kind", perIp(10, { rate: { kind: "calendar", per: "day", timezone: "UTC" } })],
])("a policy with another %s starts empty, and is named", async (_, policy) => {
  const { gateway, ask, spend, reload } = await stage(perIp(10));
  await spend(10);
  expect(await reload({ policies: [policy] })).toMatchObject({ ok: true, reset: [policy.name] });
  expect(field(await ask(), "RateLimit-Remaining")).toBe("9");
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({
      level: "warn",
      policies: [policy.name],
      msg: "policies start empty: their name, kind or key is new",
    }),
  );
  expect(await metric(gateway, `headgate_decisions_total{policy="${policy.name}",outcome="admitted"}`)).toBeGreaterThan(
    0,
  );
  expect(await metric(gateway, `headgate_remaining_ratio_count{policy="${policy.name}"}`)).toBeGreaterThan(0);
});

test("what was counted in metrics stays counted", async () => {
  const { gateway, ask, spend, reload } = await stage(perIp(10));
  await spend(10);
  await reload({ policies: [perIp(5)] });
  await ask();
  const decisions = (outcome: string) =>
    metric(gateway, `headgate_decisions_total{policy="per-ip",outcome="${outcome}"}`);
  expect([await decisions("admitted"), await decisions("throttled")]).toEqual([10, 1]);
  expect(await metric(gateway, 'headgate_remaining_ratio_count{policy="per-ip"}')).toBe(11);
});

test("enforcement: shadow lets everybody pass from one request to the next, and back", async () => {
  const { gateway, ask, spend, reload } = await stage(perIp(3));
  await spend(3);
  expect((await ask()).status).toBe(429);
  const shadow = perIp(3, { mode: "shadow" });
  expect(await reload({ policies: [shadow], enforcement: "shadow" })).toMatchObject({
    changed: expect.arrayContaining(["enforcement"]),
    reset: [],
  });
  await spend(5);
  expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="would_throttle"}')).toBe(5);
  expect(await reload({ policies: [perIp(3)] })).toMatchObject({ ok: true, reset: [] });
  expect((await ask()).status).toBe(429);
});

test("a slot that is held over a reload is free when its request ends", async () => {
  const atOnce = (limit: number): Policy => perIp(limit, { name: "at-once", rate: { kind: "concurrency" } });
  const { connect, held, ask, reload } = await stage(atOnce(1));
  const slow = connect();
  slow.write(request("/v2/slow"));
  await eventually("it is under way", () => held.length === 1);
  expect(await reload({ policies: [atOnce(1)], maxBodyBytes: 1 })).toMatchObject({ changed: ["maxBodyBytes"] });
  expect((await ask()).status).toBe(429);
  await reload({ policies: [atOnce(2)] });
  expect((await ask()).status).toBe(200);
  await reload({ policies: [atOnce(1)] });
  expect((await ask()).status).toBe(429);
  held[0]?.();
  expect((await slow.read()).status).toBe(200);
  expect((await ask()).status).toBe(200);
});

test("a request in progress shows the limit under which it was decided", async () => {
  const { connect, held, reload } = await stage(perIp(10));
  const slow = connect();
  slow.write(request("/v2/slow"));
  await eventually("it is under way", () => held.length === 1);
  await reload({ policies: [perIp(5)], fields: ["legacy"] });
  held[0]?.();
  const answer = await slow.read();
  expect([field(answer, "RateLimit-Limit"), field(answer, "RateLimit-Remaining")]).toEqual(["10", "9"]);
});

test("a late answer to a request from before a longer window frees no quota", async () => {
  const second: Policy["rate"] = { kind: "sliding", windowMs: 1_000 };
  const { clock, connect, held, ask, spend, reload } = await stage(perIp(4, { rate: second }));
  const slow = connect();
  slow.write(request("/v2/slow"));
  await eventually("it is under way", () => held.length === 1);
  await reload({ policies: [perIp(4)] });
  await spend(3);
  // Past the reset of the slow request, so its answer reads the quota again.
  clock.advance(2_000);
  held[0]?.();
  expect(field(await slow.read(), "RateLimit-Remaining")).toBe("0");
  expect((await ask()).status).toBe(429);
});

test("each answer is of one configuration as a whole: its limit, its fields and its upstream", async () => {
  // How many requests a client sends meanwhile depends on the machine, and no window ends.
  const listen = { maxRequestsPerConnection: 1_000_000_000 };
  const [limit, otherLimit] = [1_000_000_001, 1_000_000_002];
  const {
    upstream: first,
    gateway,
    connect,
  } = await stageRaw(cleanup, (socket) => socket.write(response("1")), {
    listen,
    policies: [perIp(limit)],
    fields: ["standard"],
  });
  const second = cleanup(await startRawUpstream((socket) => socket.write(response("2"))));
  const variants = [
    { url: first.url, overrides: { policies: [perIp(limit)], fields: ["standard"] } },
    { url: second.url, overrides: { policies: [perIp(otherLimit)], fields: ["legacy"] } },
  ] as const;
  const seen = new Map<string, number>();
  let isOver = false;
  const load = Array.from({ length: 4 }, connect).map(async (client) => {
    while (!isOver) {
      const answer = await client.ask(request("/v2/x"));
      const names = ["RateLimit-Limit", "X-RateLimit-Limit"];
      const fields = names.map((name) => field(answer, name) ?? "none");
      const key = [answer.status, answer.body, ...fields].join(" ");
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
  });
  for (let i = 1; i <= 60; i += 1) {
    const { url, overrides } = variants[i % 2] ?? variants[0];
    expect(await gateway.reload(testSettings(url, { listen, drain: { timeoutMs: 0 }, ...overrides }))).toMatchObject({
      ok: true,
    });
    const answered = [...seen.values()].reduce((a, b) => a + b, 0);
    await eventually("requests pass", () => [...seen.values()].reduce((a, b) => a + b, 0) > answered);
  }
  isOver = true;
  await Promise.all(load);
  expect([...seen.keys()].sort()).toEqual([`200 1 ${limit} none`, `200 2 none ${otherLimit}`]);
});

test("after a lower limit, a refusal that reads no path promises when the cost of the request fits", async () => {
  const { clock, ask, reload } = await stage(perIp(60, { cost: 4 }));
  for (let i = 0; i < 15; i += 1) {
    await ask();
    clock.advance(1_000);
  }
  await reload({ policies: [perIp(50, { cost: 4 })] });
  // The path is not in a usual spelling, so the client's quota is looked at first.
  const refused = await ask(undefined, "/v2//x");
  // 15 s have passed. The fourth request expires after 63 s.
  expect([refused.status, field(refused, "Retry-After")]).toEqual([429, "48"]);
  clock.advance(48_000);
  expect((await ask(undefined, "/v2//x")).status).toBe(200);
});

test("reloads in a storm find a place for policies with new names, however many were removed just before", async () => {
  const { ask, reload } = await stage(perIp(100));
  for (let round = 0; round < 6; round += 1) {
    const policies = Array.from({ length: 32 }, (_, i) => perIp(100, { name: `${round}-${i}` }));
    expect(await reload({ policies })).toMatchObject({ ok: true });
    // Each policy that is removed has a key.
    expect(field(await ask(), "RateLimit-Remaining")).toBe("99");
  }
});
