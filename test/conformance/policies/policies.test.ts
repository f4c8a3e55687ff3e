// What the policies promise, over raw sockets through the real gateway.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import type { Overrides } from "../../support/gateway.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import type { RawConnection } from "../../support/raw-connection.ts";
import { request, response, stageRaw } from "../../support/stage.ts";

const cleanup = useCleanup();
const clock = new FakeClock();

const sliding = (name: string, limit: number, changes: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit, windowMs: 60_000 }),
  name,
  ...changes,
});
const slots = (limit: number, changes: Partial<Policy> = {}): Policy =>
  sliding("slots", limit, { rate: { kind: "concurrency" }, ...changes });

const ok = response("ok");

async function serve(policies: readonly Policy[], more: Overrides = {}) {
  const held: (() => void)[] = [];
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (data.includes("/held")) held.push(() => void socket.write(ok));
      else socket.write(ok);
    },
    { policies, ...more },
    clock,
  );
  const ask = async (target: string, options: { from?: string; method?: string; fields?: string } = {}) => {
    const { from = "127.0.0.1", ...rest } = options;
    const client = connect({ localAddress: from }).write(request(target, rest));
    return read(client);
  };
  return { gateway, connect, held, ask };
}

async function read(client: RawConnection) {
  const { status, rawHeaders } = await client.read();
  const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
    Number(valuesOf(rawHeaders, `RateLimit-${name}`)[0]),
  );
  const untilReset = (reset ?? 0) - Math.floor(clock.wallMs() / 1000);
  const retryAfter = valuesOf(rawHeaders, "Retry-After").map(Number)[0];
  return { status, shows: `${remaining} of ${limit}`, untilReset, retryAfter, rawHeaders };
}

describe("several policies", () => {
  test("all or none are charged: what one refuses, the other does not count", async () => {
    const { ask } = await serve([sliding("a", 3), sliding("b", 1, { match: { paths: ["/v2/b"], methods: [] } })]);
    expect((await ask("/v2/b")).status).toBe(200);
    for (let i = 0; i < 5; i += 1) expect((await ask("/v2/b")).status).toBe(429);
    expect((await ask("/v2/a")).shows).toBe("1 of 3");
  });

  test("a refusal speaks of the refusing policy with the latest reset", async () => {
    const { ask } = await serve([
      sliding("short", 1, { rate: { kind: "sliding", windowMs: 10_000 } }),
      sliding("long", 1, { rate: { kind: "sliding", windowMs: 90_000 } }),
      sliding("fitting", 5, { rate: { kind: "sliding", windowMs: 900_000 } }),
    ]);
    await ask("/v2/x");
    expect(await ask("/v2/x")).toMatchObject({ status: 429, shows: "0 of 1", untilReset: 90, retryAfter: 90 });
  });

  test("an admission speaks of the policy with the fewest requests left, by cost", async () => {
    const { ask } = await serve([sliding("many", 10), sliding("costly", 20, { cost: 5 })]);
    // 9 requests left of the one, 3 of the other.
    expect(await ask("/v2/x")).toMatchObject({ status: 200, shows: "15 of 20" });
  });

  test("structured fields name every enforcing policy that applies, and no shadow", async () => {
    const { ask } = await serve(
      [
        sliding("a", 3),
        slots(2),
        sliding("b", 5, { mode: "shadow" }),
        sliding("c", 7, { match: { paths: ["/v1/"], methods: [] } }),
      ],
      { fields: ["standard", "structured"] },
    );
    const { rawHeaders } = await ask("/v2/x");
    expect(valuesOf(rawHeaders, "RateLimit-Policy")).toEqual(['"a";q=3;w=60, "slots";q=2;qu="concurrent-requests"']);
    expect(valuesOf(rawHeaders, "RateLimit")).toEqual(['"a";r=2;t=60, "slots";r=1']);
  });
});

describe("which requests", () => {
  test("match selects by path, in any spelling, and by method", async () => {
    const match = { paths: ["/v2/*/items", "/v2/crypto/"], methods: ["POST"] } as const;
    const { ask } = await serve([sliding("all", 1_000), sliding("few", 1, { match })]);
    expect((await ask("/v2/crypto/refresh", { method: "POST", fields: "Content-Length: 0\r\n" })).status).toBe(200);
    for (const target of [
      "/v2/crypto/refresh",
      "/V2/Crypto/x",
      "/v2/%63rypto/x",
      "/v2/any/items?x=1",
      "/v2//crypto/./x",
    ]) {
      const { status } = await ask(target, { method: "POST", fields: "Content-Length: 0\r\n" });
      expect([target, status]).toEqual([target, 429]);
      expect((await ask(target)).status).toBe(200);
    }
    for (const target of ["/v2/a/b/items", "/v2/items", "/v2/a/items/b", "/v1/crypto/x"]) {
      const { status } = await ask(target, { method: "POST", fields: "Content-Length: 0\r\n" });
      expect([target, status]).toEqual([target, 200]);
    }
  });

  test("exempt networks are neither asked nor charged, and see the first policy unspent", async () => {
    const { ask, gateway } = await serve([sliding("per-ip", 1, { exempt: ["127.0.9.0/24"] })]);
    for (let i = 0; i < 3; i += 1)
      expect(await ask("/v2/x", { from: "127.0.9.1" })).toMatchObject({ status: 200, shows: "1 of 1" });
    expect((await ask("/v2/x", { from: "127.0.8.1" })).status).toBe(200);
    expect((await ask("/v2/x", { from: "127.0.8.1" })).status).toBe(429);
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="exempt"}')).toBe(3);
  });

  test("an override gives some keys another limit, the longest prefix first", async () => {
    const overrides = [
      { part: "client", value: "127.0.0.0/16", limit: 2 },
      { part: "client", value: "127.0.7.0/24", limit: 3 },
    ] as const;
    const { ask } = await serve([sliding("per-ip", 1, { overrides })]);
    expect((await ask("/v2/x", { from: "127.0.7.1" })).shows).toBe("2 of 3");
    expect((await ask("/v2/x", { from: "127.0.6.1" })).shows).toBe("1 of 2");
    expect((await ask("/v2/x", { from: "127.1.6.1" })).shows).toBe("0 of 1");
  });
});

describe("keys", () => {
  test("an empty key is one counter for all", async () => {
    const { ask } = await serve([sliding("all", 2, { key: [] })]);
    expect((await ask("/v2/x", { from: "127.0.0.2" })).shows).toBe("1 of 2");
    expect((await ask("/v2/x", { from: "127.0.0.3" })).shows).toBe("0 of 2");
    expect((await ask("/v2/x", { from: "127.0.0.4" })).status).toBe(429);
  });

  test("parts are joined: each method and route of a client has a counter of its own", async () => {
    const key = [{ kind: "client" }, { kind: "method" }, { kind: "route" }] as const;
    const { ask } = await serve([sliding("each", 1, { key })]);
    for (const [target, method] of [
      ["/v1/x", "GET"],
      ["/v2/x", "GET"],
      ["/v2/x", "DELETE"],
    ] as const) {
      expect((await ask(target, { method })).status).toBe(200);
      expect((await ask(target, { method })).status).toBe(429);
    }
  });
});

describe("kinds", () => {
  test("a calendar quota is reset at the border, in its time zone", async () => {
    const rate = { kind: "calendar", per: "day", timezone: "Asia/Kolkata" } as const;
    const { ask } = await serve([sliding("daily", 1, { rate })]);
    await ask("/v2/x");
    const { status, untilReset, retryAfter } = await ask("/v2/x");
    expect(status).toBe(429);
    const reset = new Date((Math.floor(clock.wallMs() / 1000) + untilReset) * 1000);
    expect(reset.toISOString()).toMatch(/T18:30:00/);
    clock.advance((retryAfter ?? 0) * 1000);
    expect((await ask("/v2/x")).status).toBe(200);
  });

  test("concurrency: a slot is free again when its exchange ends, and a refusal promises a second", async () => {
    const { ask, connect, held } = await serve([sliding("many", 1_000), slots(2)]);
    const clients = [connect(), connect()];
    for (const client of clients) client.write(request("/v2/held"));
    await eventually("both are at the upstream", () => held.length === 2);
    expect(await ask("/v2/x")).toMatchObject({ status: 429, shows: "0 of 2", retryAfter: 1, untilReset: 1 });
    held[0]?.();
    await clients[0]?.read();
    expect((await ask("/v2/x")).status).toBe(200);
    clients[1]?.destroy();
    await eventually("the other slot is free", async () => (await ask("/v2/x")).shows === "1 of 2");
  });

  test("a request spends its cost, and its reset is when its cost fits", async () => {
    const { ask } = await serve([sliding("costly", 10, { cost: 4 })]);
    await ask("/v2/x");
    clock.advance(5_000);
    expect((await ask("/v2/x")).shows).toBe("2 of 10");
    expect(await ask("/v2/x")).toMatchObject({ status: 429, retryAfter: 55 });
  });
});

describe("shadow", () => {
  const shadows: readonly Policy[] = [
    sliding("s-window", 2, { mode: "shadow" }),
    sliding("s-calendar", 1, { mode: "shadow", rate: { kind: "calendar", per: "minute", timezone: "UTC" } }),
    slots(1, { name: "s-slots", mode: "shadow" }),
    sliding("s-charge", 1, { mode: "shadow", chargeStatuses: [200] }),
  ];

  async function bytesWith(policies: readonly Policy[], more: Overrides = {}): Promise<string> {
    const { connect, gateway } = await serve(policies, { fields: ["standard", "legacy", "structured"], ...more });
    const targets = ["/v2/x", "/v1/y", "/none", "/v2/%2e%2e/%2e%2e/x", "/v2/x", "/v2/x", "*", "/v2/x", "/v2/x"];
    let received = "";
    for (const target of targets) {
      for (const fields of ["", "Content-Length: 99999999999\r\n", "Expect: x\r\n"]) {
        const client = connect();
        client.write(
          request(target, { method: target === "*" ? "OPTIONS" : "GET", fields: `${fields}Connection: close\r\n` }),
        );
        await client.closed;
        received += client.rest;
      }
    }
    if (policies.length > 1) {
      expect(
        await metric(gateway, 'headgate_decisions_total{policy="s-window",outcome="would_throttle"}'),
      ).toBeGreaterThan(0);
    }
    return received.replaceAll(/X-Request-Id: \S+/g, "X-Request-Id: -");
  }

  test("a shadow policy changes no byte of any answer, and counts what it would have refused", async () => {
    const alone = await bytesWith([sliding("per-ip", 20)]);
    expect(alone).toContain(" 429 ");
    expect(await bytesWith([sliding("per-ip", 20), ...shadows])).toBe(alone);
    expect(await bytesWith([...shadows, sliding("per-ip", 20)])).toBe(alone);
  });

  test("enforcement: shadow refuses nobody", async () => {
    const { ask, gateway } = await serve([sliding("per-ip", 1)], { enforcement: "shadow" });
    for (let i = 0; i < 3; i += 1) expect((await ask("/v2/x")).status).toBe(200);
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="would_throttle"}')).toBe(2);
  });
});
