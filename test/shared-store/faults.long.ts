// One limit over four gateways, while gateways, the store and the network between them fail in every way that a test can
// make. For each: no 5xx, every field, no request that waits, and the worst window within what docs/inside/shared-counters.md
// promises. Takes about 60 s.
import { setTimeout } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedCleanup } from "../support/cleanup.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { isNight } from "../support/runs.ts";
import { askStore } from "./ask-store.ts";
import { limits } from "./fleet.ts";
import { type LoadResult, underLoad } from "./load.ts";
import { reportLoad } from "./report.ts";
import { type SharedStage, shared, stageStore, waitMs, warmUp } from "./stage.ts";

const gateways = 4;
/** What a busy machine may add to a time. What waits for an answer that does not come would take much longer. */
const slownessMs = 400;
/** By which a limit is exceeded at most, in units of it: what the table in docs/inside/shared-counters.md promises. */
type Bound = (limit: number) => number;
const exact: Bound = (limit) => limit;
const away: Bound = (limit) => limit + gateways * Math.max(1, Math.floor(limit / gateways));
const flushed: Bound = (limit) => limit + away(limit);

interface Fault {
  readonly what: string;
  readonly bound: Bound;
  /** Whether it is the gateway that is slow, not the store. */
  readonly isOfGateway?: boolean;
  /** Others show it as well: `npm run test:nightly` alone tries it. */
  readonly isRare?: boolean;
  strike(stage: SharedStage): Promise<unknown>;
}

const cleanup = useSharedCleanup();
let stage: SharedStage;
beforeAll(async () => {
  if (skipRedis) return;
  stage = await stageStore(cleanup, gateways, { redis: { appendOnly: true } });
  await warmUp(stage);
}, 60_000);

const faults: readonly Fault[] = [
  { what: "nothing", bound: exact, isRare: true, strike: async () => {} },
  {
    what: "one gateway after the other stands still for longer than its leases",
    bound: away,
    isOfGateway: true,
    async strike({ fleet }) {
      for (const gateway of fleet.gateways) {
        gateway.signal("SIGSTOP");
        await setTimeout(4 * waitMs);
        gateway.signal("SIGCONT");
      }
    },
  },
  {
    what: "the store forgets the script, again and again",
    bound: exact,
    strike: ({ redis }) => repeat(8, 100, () => askStore(redis, "SCRIPT", "FLUSH")),
  },
  { what: "connections are cut, again and again", bound: away, strike: ({ proxy }) => repeat(5, 150, proxy.cut) },
  {
    what: "connections are cut, and new ones refused for a second",
    bound: away,
    async strike({ proxy }) {
      await proxy.fault({ isRefused: true });
      await proxy.cut();
      await setTimeout(1_000);
      await proxy.fault({});
    },
  },
  {
    what: "the network passes nothing for half a second",
    bound: away,
    isRare: true,
    strike: (s) => held(s, 500),
  },
  { what: "the network passes nothing for two seconds", bound: away, strike: (s) => held(s, 2_000) },
  {
    what: "each answer takes longer than a request waits",
    bound: away,
    async strike({ proxy }) {
      await proxy.fault({ delayMs: waitMs });
      await setTimeout(1_000);
      await proxy.fault({});
    },
  },
  {
    what: "the network passes 20 KB/s",
    bound: away,
    isRare: true,
    async strike({ proxy }) {
      await proxy.fault({ bytesPerSecond: 20_000 });
      await setTimeout(1_000);
      await proxy.fault({});
    },
  },
  {
    what: "the store is full",
    bound: away,
    async strike({ redis }) {
      await askStore(redis, "CONFIG", "SET", "maxmemory", "1mb");
      await setTimeout(1_500);
      await askStore(redis, "CONFIG", "SET", "maxmemory", "0");
    },
  },
  {
    what: "the store is killed, and starts again with all it had",
    bound: away,
    strike: ({ redis }) => redis.restart(),
  },
  { what: "FLUSHALL", bound: flushed, strike: ({ redis }) => askStore(redis, "FLUSHALL") },
  {
    what: "the store is killed, and starts again with nothing",
    bound: away,
    async strike({ redis, proxy }) {
      const empty: RedisServer = await startRedis();
      cleanup(() => empty.stop());
      await proxy.target(empty.port);
      await redis.kill();
    },
  },
];

describe.skipIf(skipRedis)(`one limit while something fails${redisNeeded}`, () => {
  test.each(faults.filter(({ isRare }) => isNight || isRare !== true))(
    "$what",
    async ({ what, bound, isOfGateway = false, strike }) => {
      let addedMs = Number.POSITIVE_INFINITY;
      // The time alone is tried again: a machine that stands still adds to it, and a request that waits for the store does each time.
      for (let attempt = 0; attempt < 3 && addedMs >= waitMs + slownessMs; attempt += 1) {
        const result = await underLoad(stage, () => strike(stage));
        reportLoad(what, result);
        // A gateway that gets no processor for longer than `wait` finds the store slow, and decides alone.
        expectBounds(result, bound === exact && result.alone > 0 ? away : bound);
        expectAnswered(result);
        addedMs = isOfGateway ? 0 : result.after.p99Ms - result.before.p99Ms;
        await shared(stage.fleet.gateways, gateways);
      }
      expect(addedMs).toBeLessThan(waitMs + slownessMs);
    },
  );
});

function expectBounds({ small, large, edge }: LoadResult, bound: Bound): void {
  expect(small.worst).toBeLessThanOrEqual(bound(limits.small));
  expect(edge.worst).toBeLessThanOrEqual(bound(limits.small));
  expect(large.worst).toBeLessThanOrEqual(bound(limits.large));
}

/** Every request has its answer with all fields, and none is an error. */
function expectAnswered({ before, after }: LoadResult): void {
  expect(Object.keys(after.statuses)).toEqual(["200", "429"]);
  expect(before.incomplete + after.incomplete).toBe(0);
}

async function repeat(times: number, everyMs: number, act: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < times; i += 1) {
    await act();
    await setTimeout(everyMs);
  }
}

async function held({ proxy }: SharedStage, ms: number): Promise<void> {
  await proxy.fault({ isHeld: true });
  await setTimeout(ms);
  await proxy.fault({});
}
