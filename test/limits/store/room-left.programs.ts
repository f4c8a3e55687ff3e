// Many requests with many policies at once over a real store: none is refused while each of its policies has room.
import { readFile } from "node:fs/promises";
import { setTimeout as elapsed, setImmediate as endOfTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { openRedisLink } from "../../../src/limits/store/redis/link.ts";
import { storeScript } from "../../../src/limits/store/script.ts";
import { Store } from "../../../src/limits/store/store.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { realTimers as timers } from "../../support/timers.ts";
import { placeSecret, smallTable } from "../small-table.ts";
import { settingsOf } from "./redis/watched-link.ts";

const cleanup = useCleanup();
const requests = 800;
const settings = {
  prefix: "headgate:",
  waitMs: 500,
  lease: { durationMs: 1000, most: 1000 },
  onFailure: "local",
  replicas: 1,
  maxKeys: 100_000,
} as const;

async function limiterOf(policies: readonly Policy[]): Promise<PolicyLimiter> {
  const server = await startRedis();
  cleanup(() => server.stop());
  const table = smallTable();
  const readText = (path: string): Promise<string> => readFile(path, "utf8");
  const link = openRedisLink(settingsOf(server.port), {
    script: storeScript,
    readFile: readText,
    connectTimeoutMs: 5_000,
  });
  const store = new Store({
    ...{ link, settings, clock: systemClock, timers, table, secret: placeSecret },
    ...{ gateway: "g".repeat(12), thread: "t".repeat(10) },
    ...{ onSecret() {}, onChange() {}, onGone() {}, onIdentity() {}, onAnswered() {}, onWaited() {} },
  });
  store.open();
  cleanup(() => store.close());
  await eventually("the store is up", () => store.figures().state === "up");
  return new PolicyLimiter(policies, { clock: systemClock, table, store });
}

function spin(ms: number): void {
  const endMs = systemClock.monotonicMs() + ms;
  while (systemClock.monotonicMs() < endMs);
}

describe.skipIf(skipRedis)(`over a real store${redisNeeded}`, () => {
  test.each([
    [12, 40, 0],
    [16, 40, 0],
    [5, 600, 60],
  ])(
    "%i policies, %i requests at once, and a loop that stalls for %i ms: none is refused",
    async (count, atOnce, stallMs) => {
      const limiter = await limiterOf(
        Array.from({ length: count }, (_, i) => {
          const base = slidingPolicy({ name: `p${i}`, limit: 900, windowMs: 3_600_000 });
          return i % 2 === 0 ? base : { ...base, key: [] };
        }),
      );
      const decisions: Decision[] = [];
      let sent = 0;
      const askAll = async (): Promise<void> => {
        while (sent < requests) {
          sent += 1;
          const { request, head } = limitedRequest({ client: `192.0.2.${1 + (sent % 200)}` });
          decisions.push(await limiter.ask(askedRequest(request, head, systemClock.monotonicMs()), "anonymous"));
          await endOfTurn();
        }
      };
      const stallAll = async (): Promise<void> => {
        while (decisions.length < requests && stallMs > 0) {
          spin(stallMs);
          await elapsed(2);
        }
      };
      await Promise.all([...Array.from({ length: atOnce }, askAll), stallAll()]);
      expect(decisions.filter(({ outcome }) => outcome !== "admitted")).toEqual([]);
    },
  );
});
