// One limit over four gateways, while the store is well: greedy clients, clients at the edge of their limit that change
// gateways at random, bursts, and clients that wait for exactly Retry-After. Takes about 25 s.
// HEADGATE_WINDOW_MS=60000 tries windows as long as those in production.
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { isNight } from "../support/runs.ts";
import { type Asked, monotonicMs } from "./client-line.ts";
import { limits, windowMs } from "./fleet.ts";
import { reportOutcome } from "./report.ts";
import { type SharedStage, stageStore, total, warmUp } from "./stage.ts";
import { answersOf, before, type Client, mostAtUpstream, type Outcome, outcomeOf, worstPeriod } from "./traffic.ts";

const cleanup = useCleanup();
/** Four windows begin in it. */
const lastsMs = 3.4 * windowMs;
/** Long, because what is measured is a store that answers: a machine that is busy must not look like one that does not. */
const waitMs = Number(process.env["HEADGATE_WAIT_MS"] ?? 250);
/** A unit that was asked for by a request counts from the call on, as if it was spent when its lease ends. */
const countsMs = windowMs + 1.5 * waitMs;
const anyOf = (count: number): number => Math.floor(Math.random() * count);

describe.skipIf(skipRedis)(`one limit over several gateways${redisNeeded}`, () => {
  test.each([
    // That four with one thread keep a limit, faults.long.ts shows as well.
    ...(isNight ? [[4, 1] as const] : []),
    [2, 2] as const,
  ])("%d gateways with %d workers: never above a limit, and at least 0.98 of it", async (gateways, workers) => {
    const stage = await stageStore(cleanup, gateways, {
      settings: [`workers=${workers}`, `counters.redis.wait=${waitMs}ms`],
    });
    await warmUp(stage);
    await expectOneByOne(stage, await withStore(stage, loadsOneByOne));
    await expectLeased(stage, await withStore(stage, leasesAhead));
    for (const { refused, next } of await withStore(stage, waitsForRetryAfter)) {
      expect([refused.status, refused.retryAfterSeconds]).toEqual([429, Math.max(1, refused.retryAfterSeconds)]);
      expect(next.status).toBe(200);
    }
    const burst = await withStore(stage, ({ client }) => client("/v1/small").burst(20));
    expect(new Set(burst.map(({ status }) => status))).toEqual(new Set([200]));
  });
});

/**
 * Resolves with what comes of a load during which nothing was decided without the store. To a machine that stands still for a
 * while the store seems to be slow, so the load is tried again.
 */
async function withStore<Result>(stage: SharedStage, load: (stage: SharedStage) => Promise<Result>): Promise<Result> {
  const alone = () => total(stage.fleet.gateways, 'headgate_store_alone_total{mode="local"}');
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const before = await alone();
    const result = await load(stage);
    if ((await alone()) === before) return result;
    // What was admitted must not count for the limit that all clients have together.
    await setTimeout(2 * windowMs);
  }
  throw new Error("gateways have decided without the store in each of five tries");
}

interface OneByOne {
  readonly greedy: Client;
  /** At the edge of their limit. */
  readonly edge: readonly Client[];
  /** Their requests are at the upstream for a moment, and for a second. */
  readonly slots: Client;
  readonly heldSlots: Client;
  readonly minute: Client;
  /** With a limit of their own, and one together. */
  readonly both: readonly Client[];
}

async function loadsOneByOne(stage: SharedStage): Promise<OneByOne> {
  const greedy = stage.client("/v1/small");
  const edge = Array.from({ length: 20 }, () => stage.client("/v1/small"));
  const [slots, heldSlots] = [stage.client("/v1/slots", "?hold=20"), stage.client("/v1/slots", "?hold=1000")];
  const minute = stage.client("/v1/minute");
  const both = [stage.client("/v1/both"), stage.client("/v1/both")];
  const endMs = monotonicMs() + lastsMs;
  const perSecond = (1_050 * limits.small) / windowMs;
  await Promise.all([
    ...[greedy, minute, ...both].map((client) => client.greedy(before(endMs))),
    ...[slots, heldSlots].map((client) => client.greedy(before(endMs), 3)),
    ...edge.map((client) => client.steady(before(endMs), perSecond, anyOf)),
  ]);
  return { greedy, edge, slots, heldSlots, minute, both };
}

async function expectOneByOne(
  { upstream }: SharedStage,
  { greedy, edge, slots, heldSlots, minute, both }: OneByOne,
): Promise<void> {
  const visits = await upstream.visits();
  const outcome = (clients: Client | readonly Client[], limit: number): Outcome =>
    outcomeOf(clients, visits, { limit, windowMs, countsMs });
  const edges = edge.map((client) => outcome(client, limits.small));
  const ofEdges = {
    admitted: sum(edges.map(({ admitted }) => admitted)),
    ideal: sum(edges.map(({ ideal }) => ideal)),
    lost: sum(edges.map(({ lost }) => lost)),
    worst: Math.max(...edges.map(({ worst }) => worst)),
    delayMs: Math.max(...edges.map(({ delayMs }) => delayMs)),
    p99DelayMs: Math.max(...edges.map(({ p99DelayMs }) => p99DelayMs)),
  };
  reportOutcome(`${limits.small} in ${windowMs} ms, a greedy client`, outcome(greedy, limits.small));
  reportOutcome(`the same, ${edge.length} clients at the edge`, ofEdges);
  for (const each of [outcome(greedy, limits.small), ofEdges]) expectWhole(each, limits.small);
  for (const client of both) expect(outcome(client, limits.both).worst).toBeLessThanOrEqual(limits.both);
  expectWhole(outcome(both, limits.all), limits.all);
  expect(mostAtUpstream(slots, visits)).toBeLessThanOrEqual(limits.slots);
  // On a busy machine, requests that are there for a moment are seldom there together.
  expect(mostAtUpstream(heldSlots, visits)).toBe(limits.slots);
  const { most, ideal, admitted } = worstPeriod(minute, visits, { limit: limits.minute, periodMs: 60_000 });
  expect(most).toBeLessThanOrEqual(limits.minute);
  expect(admitted).toBeGreaterThanOrEqual(0.98 * ideal);
  expectAnswered([greedy, slots, heldSlots, minute, ...both, ...edge]);
}

async function leasesAhead(stage: SharedStage): Promise<Client> {
  const greedy = stage.client("/v1/large");
  await greedy.greedy(before(monotonicMs() + lastsMs), 4);
  return greedy;
}

async function expectLeased({ upstream }: SharedStage, greedy: Client): Promise<void> {
  const outcome = outcomeOf(greedy, await upstream.visits(), { limit: limits.large, windowMs });
  reportOutcome(`${limits.large} in ${windowMs} ms`, outcome);
  expectWhole(outcome, limits.large);
  expectAnswered([greedy]);
}

/** The refusal of each of sixty clients, so that what is rounded up to seconds is nothing for some, and its request after that time. */
async function waitsForRetryAfter(stage: SharedStage): Promise<{ readonly refused: Asked; readonly next: Asked }[]> {
  const clients = Array.from({ length: 60 }, () => stage.client("/v1/few"));
  return Promise.all(
    clients.map(async (client, i) => {
      await setTimeout((i * 1_000) / clients.length);
      let refused = await client.once(anyOf(2));
      // On a slow machine the first may be too old, once the last is asked.
      while (refused.status === 200) refused = await client.once(anyOf(2));
      const { retryAfterSeconds, answeredMs } = refused;
      // The timer may be early by a millisecond.
      for (let earlyMs = 1; earlyMs > 0; earlyMs = answeredMs + retryAfterSeconds * 1_000 - monotonicMs()) {
        await setTimeout(earlyMs);
      }
      return { refused, next: await client.once(anyOf(2)) };
    }),
  );
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

function expectWhole({ worst, admitted, ideal }: Outcome, limit: number): void {
  expect(worst).toBeLessThanOrEqual(limit);
  expect(admitted).toBeGreaterThanOrEqual(0.98 * ideal);
}

/** Every request has its answer with all fields, and none is an error. */
function expectAnswered(clients: readonly Client[]): void {
  const { statuses, incomplete } = answersOf(clients.flatMap(({ asked }) => asked));
  expect(Object.keys(statuses)).toEqual(["200", "429"]);
  expect(incomplete).toBe(0);
}
