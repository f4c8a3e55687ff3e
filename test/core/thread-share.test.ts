import { expect, test } from "vitest";
import { type Settings, settingsOfThread, shareOf } from "../../src/core/settings.ts";
import { SharedConnectionCount } from "../../src/listener/connection-table.ts";
import { testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";

test("the shares of all threads stay within the bound, and each is at least 1", () => {
  expect([shareOf(256, 2), shareOf(100, 3), shareOf(1, 4), shareOf(64, 64)]).toEqual([128, 33, 1, 1]);
});

test("one thread has the settings as they are", () => {
  const settings = testSettings(deadUrl);
  expect(settingsOfThread(settings)).toBe(settings);
});

test("what protects the upstream and the memory is divided; policies and the bound on connections are not", () => {
  const extAuth = {
    http: { host: "::1", port: 1, maxConnections: 9 },
    grpc: { host: "::1", port: 2, maxConnections: 1 },
  };
  const settings = testSettings(deadUrl, {
    workers: 4,
    upstream: { maxConnections: 10 },
    upgrade: { maxTunnels: 3 },
    refusals: { perSecond: 5, burst: 80 },
    extAuth,
  });
  const { upstream, upgrade, refusals, listen, policies, ...own } = settingsOfThread(settings);
  expect([upstream.maxConnections, upgrade.maxTunnels]).toEqual([2, 1]);
  expect(refusals).toEqual({ perSecond: 1, burst: 20 });
  expect([own.extAuth.http?.maxConnections, own.extAuth.grpc?.maxConnections]).toEqual([2, 1]);
  expect(listen).toEqual(settings.listen);
  expect(policies).toEqual(settings.policies);
});

test("all threads together make as many new keys in a shared store as one would", () => {
  const memory = testSettings(deadUrl, { workers: 4 });
  expect(settingsOfThread(memory).counters).toEqual(memory.counters);
  const servers = { kind: "one" as const, address: { host: "127.0.0.1", port: 1 } };
  const redis: Settings["counters"]["redis"] = {
    connection: { servers, database: 0, username: null, passwordFile: null, tls: null },
    store: {
      ...{ prefix: "headgate:", waitMs: 10, lease: { durationMs: 1_000, most: 1_000 } },
      ...{ onFailure: "local", replicas: "auto", maxKeys: 1_002 },
    },
  };
  const settings = { ...memory, counters: { ...memory.counters, redis } };
  expect(settingsOfThread(settings).counters).toEqual({
    ...memory.counters,
    redis: { ...redis, store: { ...redis.store, maxKeys: 250 } },
  });
});

test("connections are counted over all threads, and those of a thread that is gone are given back", () => {
  const memory = SharedConnectionCount.createMemory();
  const [first, second] = [new SharedConnectionCount(memory, 1), new SharedConnectionCount(memory, 64)];
  for (let i = 0; i < 3; i += 1) first.enter();
  second.enter();
  second.enter();
  first.admit();
  first.admit();
  second.admit();
  first.leave(false);
  first.leave(true);
  first.setIdle(3, 7_000);
  second.setIdle(5, 2_000);
  for (const count of [first, second]) expect([count.total, count.admitted]).toEqual([3, 2]);
  expect([first.idleElsewhere, second.idleElsewhere]).toEqual([5, 3]);
  expect([first.idleElsewhereSinceMs, second.idleElsewhereSinceMs]).toEqual([2_000, 7_000]);
  SharedConnectionCount.forget(memory, 1);
  expect([second.total, second.admitted, second.idleElsewhere]).toEqual([2, 1, 0]);
  expect(second.idleElsewhereSinceMs).toBe(Number.POSITIVE_INFINITY);
  second.setIdle(0, 0);
  expect(new SharedConnectionCount(memory, 2).idleElsewhereSinceMs).toBe(Number.POSITIVE_INFINITY);
});
