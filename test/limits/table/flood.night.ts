// Ten million clients, networks and tokens against 32 MiB of counters: memory does not grow, and who is exhausted stays
// refused. The report says what a decision costs before and during the flood; work.sampled.test.ts bounds the work of one.
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { CounterKey } from "../../../src/core/counter-key.ts";
import { counterKeyOf } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { FloodedLimiter, ipv4Flood, ipv6Flood, medianNs } from "./flood.ts";

const bytes = 32 * 1024 * 1024;
const total = 10_000_000;
const batch = 10_000;
/** Ten million decisions take a minute of processor time where others need the memory's bandwidth too. */
const timeoutMs = 600_000;
const policy = slidingPolicy({ limit: 100, windowMs: 60_000 });
const byToken = slidingPolicy({ name: "token", limit: 100, windowMs: 60_000, key: [{ kind: "token" }] });
const residentMiB = (): number => process.memoryUsage().rss / 1024 ** 2;

const ofKeys = (keyOf: (i: number) => CounterKey) => {
  const client = counterKeyOf("203.0.113.7");
  const flooded = new FloodedLimiter([policy], bytes, randomBytes(16));
  return { flooded, take: (i: number) => flooded.take(keyOf(i)), takeOld: () => flooded.take(client) };
};
const ofTokens = () => {
  const flooded = new FloodedLimiter([byToken], bytes, randomBytes(16));
  return { flooded, take: (i: number) => flooded.takeToken(`t${i}`), takeOld: () => flooded.takeToken("old") };
};

const floods = {
  "10,000,000 addresses of IPv4": () => ofKeys(ipv4Flood),
  "10,000,000 networks of IPv6": () => ofKeys(ipv6Flood),
  "10,000,000 tokens": ofTokens,
};

for (const [name, create] of Object.entries(floods))
  test(
    `${name} take no memory, and forget nobody who is exhausted`,
    async ({ annotate }) => {
      const { flooded, take, takeOld } = create();
      while (takeOld().outcome === "admitted");
      const quietNs = medianNs(50, batch, (i) => take(i % 10_000));
      const rssBefore = residentMiB();
      let most = rssBefore;
      const floodNs = medianNs(total / batch, batch, (i) => {
        if (i % batch === 0) {
          expect(takeOld().outcome).toBe("throttled");
          most = Math.max(most, residentMiB());
          // A millisecond for 300 requests: the flood lasts 33 s of the window.
          flooded.nowMs += batch / 300;
        }
        take(i);
      });
      const { usedBytes, bySlot } = flooded.table.figures();
      await annotate(
        `quiet ${quietNs.toFixed(0)} ns, flood ${floodNs.toFixed(0)} ns; RSS ${rssBefore.toFixed(0)} to ${most.toFixed(0)} MiB; ` +
          `used ${(usedBytes / 1024 ** 2).toFixed(1)} MiB; ${JSON.stringify(bySlot[0])}`,
      );
      expect(most - rssBefore).toBeLessThan(2 * (bytes / 1024 ** 2));
    },
    timeoutMs,
  );
