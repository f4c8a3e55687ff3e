// The telemetry of a main thread and of its workers together: one scrape, as of one thread.
import { expect, test } from "vitest";
import type { SharedStoreFigures } from "../../src/core/store-link.ts";
import { createMainTelemetry } from "../../src/telemetry/main-telemetry.ts";
import type { TrafficSources } from "../../src/telemetry/scraped-metrics.ts";
import { createTelemetry, type ThreadReport } from "../../src/telemetry/telemetry.ts";
import { type KnownThread, WorkerReadings } from "../../src/telemetry/worker-figures.ts";
import { figuresOf, statsOf } from "../support/policy.ts";
import { FakeClock, keptLog } from "./lines.ts";
import { exchangeOf, policy, scrape, storeFigures } from "./scrape.ts";

const traffic: TrafficSources = {
  waitingBodyBytes: () => 5,
  upstreamConnections: () => ({ active: 1, idle: 2, waiting: 3 }),
  tunnels: () => ({ opening: 0, open: 1 }),
  upstreamAddresses: () => ({
    ...{ available: 2, ejected: 1, ejections: 4, failovers: new Map([["reset", 2]]) },
    ...{ failedLookups: 0, areCurrent: true },
  }),
  sharesReads: () => true,
};

/** What one thread says for all. */
const ofProcess = {
  clientConnections: () => 14,
  tokens: () => ({
    listed: 3,
    isCurrent: true,
    ending: () => 1,
    list: {
      names: () => new Set<string>(),
      identities: () => [],
      hasDigest: () => false,
      hasScopes: () => false,
      size: 3,
      endingBefore: () => [],
    },
  }),
  certificate: () => null,
};

async function started(count: number, stores: readonly SharedStoreFigures[] = []) {
  const clock = new FakeClock();
  const { log, lines } = keptLog("debug", clock);
  const readings = new WorkerReadings();
  const common = { log, clock, version: "1.2.3", nodeVersion: "v26.0.0", routes: ["/v1/", "/v2/"] };
  const main = createMainTelemetry({
    ...{ ...common, ...ofProcess },
    droppedLogLines: () => 100,
    limiter: { stats: () => [statsOf(policy)] },
    counters: () => figuresOf(policy, { keys: 9 }),
    workers: readings,
    hasStore: stores.length > 0,
  });
  const workers = Array.from({ length: count }, (_, i) => {
    const store =
      stores.length === 0
        ? null
        : { figures: () => stores[i] as SharedStoreFigures, rules: null, sightings: undefined };
    const telemetry = createTelemetry({ ...common, droppedLogLines: () => 1, workers: count, store });
    telemetry.metrics.addSeries({ routes: common.routes, policies: [policy.name] });
    const scrape = telemetry.scraping({
      ...{ ...common, ...traffic, ...ofProcess, store },
      limiter: { stats: () => [statsOf(policy)] },
      counters: () => figuresOf(policy, { keys: 9 }),
    });
    return { ...telemetry, ...scrape };
  });
  const known = workers.map((worker, i): { -readonly [Key in keyof KnownThread]: KnownThread[Key] } => ({
    ...{ thread: i + 1, activeSeconds: 0, report: noReport },
    cells: structuredClone({ ...worker.cells(), outcomes: new Map() }),
  }));
  for (const each of known) readings.add(each);
  /** All threads hand over what they report. */
  const handOver = async (): Promise<void> => {
    for (const [i, worker] of workers.entries()) {
      const addresses = [...stateOf(0, false), ...stateOf(1, false), ...stateOf(2, true)];
      (known[i] as (typeof known)[number]).report = structuredClone({ ...(await worker.report()), addresses });
    }
  };
  await handOver();
  return { clock, lines, main, workers, readings, handOver };
}

const stateOf = (i: number, isEjected: boolean) => [
  { address: `192.0.2.${i}:80`, ejectedFor: isEjected ? "reset" : null, active: 0 },
];

const noReport: ThreadReport = {
  ...{ families: [], addresses: [], store: null, busiest: { client: "", ofClient: 0, ofAll: 0 } },
};

test("one scrape has the requests of all workers and the process once", async () => {
  const { main, workers, handOver } = await started(2);
  workers[0]?.finish(exchangeOf(), "/v2/x");
  workers[1]?.finish(exchangeOf(), "/v2/x");
  workers[1]?.finish(exchangeOf({ status: 503, problem: "overloaded" }), "/v2/x");
  workers[1]?.connectionShed("idle", null);
  main.connectionShed("admin", null);
  main.metrics.setDraining();
  await handOver();
  const series = await scrape(main);
  expect(Object.fromEntries(series)).toMatchObject({
    'headgate_requests_total{method="GET",route="/v2/",status_class="2xx"}': 2,
    'headgate_requests_total{method="GET",route="/v2/",status_class="5xx"}': 1,
    'headgate_refusals_total{reason="overloaded"}': 1,
    'headgate_request_duration_seconds_count{route="/v2/"}': 3,
    'headgate_connections_shed_total{reason="idle"}': 1,
    'headgate_connections_shed_total{reason="admin"}': 1,
    'headgate_upstream_connections{state="idle"}': 4,
    headgate_client_connections: 14,
    'headgate_upstream_failovers_total{reason="reset"}': 4,
    'headgate_upstream_addresses{state="available"}': 2,
    'headgate_upstream_addresses{state="ejected"}': 1,
    headgate_tokens_listed: 3,
    headgate_tokens_ending: 1,
    'headgate_log_lines_lost_total{reason="dropped"}': 102,
    'headgate_clients_tracked{policy="per-ip"}': 9,
    'headgate_build_info{node_version="v26.0.0",version="1.2.3"}': 1,
    headgate_draining: 1,
  });
  expect(series.get("process_resident_memory_bytes")).toBeGreaterThan(0);
});

test("a scrape over workers has the families and the series of one thread", async () => {
  const { main } = await started(2);
  const { workers } = await started(1);
  const namesOf = (series: Map<string, number>): string[] => [...series.keys()].sort();
  // Of the event loops there is one series for each worker.
  const [only] = workers;
  if (only === undefined) throw new Error("there is one");
  const second = 'headgate_event_loop_active_seconds_total{worker="2"}';
  expect(namesOf(await scrape(main))).toEqual([...namesOf(await scrape(only)), second].sort());
  expect(namesOf(await scrape(main, true))).toEqual([...namesOf(await scrape(only, true)), second].sort());
});

test("the event loop's time that is not idle is that of this thread", async () => {
  const { workers } = await started(1);
  const [only] = workers;
  if (only === undefined) throw new Error("there is one");
  const read = async () => (await scrape(only)).get('headgate_event_loop_active_seconds_total{worker="1"}') ?? 0;
  const before = await read();
  await expect.poll(read, { interval: 1 }).toBeGreaterThan(before);
});

test("counters have all their series before a worker has answered", async () => {
  const { main } = await started(0);
  const series = await scrape(main);
  expect(series.get('headgate_requests_total{method="GET",route="/v2/",status_class="2xx"}')).toBe(0);
  expect(series.get('headgate_decisions_total{outcome="admitted",policy="per-ip"}')).toBe(0);
});

test("the upstream's state is that of the last attempt of all workers", async () => {
  const { clock, main, workers, readings } = await started(2);
  const told = async (): Promise<unknown> => {
    const { body } = await main.text(false);
    return [main.upstreamHealth().state, /^headgate_upstream_state\{state="(\w+)"\} 1$/m.exec(body)?.[1]];
  };
  expect(await told()).toEqual(["unknown", "unknown"]);
  workers[0]?.upstreamAnswered(clock.nowMs);
  clock.nowMs += 1;
  workers[1]?.upstreamFailed({ id: "1", reason: "refused", code: "ECONNREFUSED", address: "192.0.2.9:80" });
  expect(await told()).toEqual(["down", "down"]);
  clock.nowMs += 1;
  workers[0]?.upstreamAnswered(clock.nowMs);
  expect(await told()).toEqual(["up", "up"]);
  readings.remove(1);
  expect(await told()).toEqual(["down", "down"]);
});

test.each([
  [1, 5],
  [2, 4],
  [8, 8],
])("%i workers write at most %i lines of a kind in a second", async (count, expected) => {
  const { lines, workers } = await started(count);
  for (const worker of workers) for (let i = 0; i < 10; i += 1) worker.shareExceeded("queue", "192.0.2.1");
  expect(lines().filter(({ msg }) => msg === "client over its share")).toHaveLength(expected);
  for (const worker of workers) worker.close();
});

test("the store is that of the worker that sees it worst off, and what the workers did with it is added", async () => {
  const away = { up: 1, slow: 0, away: 2, returned: 0 };
  const stores = [
    storeFigures({ state: "returned", shards: { up: 2, slow: 0, away: 0, returned: 1 }, replicas: 3, sinceMs: 1 }),
    storeFigures({
      state: "away",
      shards: { up: 2, slow: 0, away: 1, returned: 0 },
      replicas: 5,
      sinceMs: 7,
      heldUnits: 1,
    }),
    storeFigures({ state: "away", shards: away, replicas: 4, sinceMs: 8, forgot: 1 }),
    storeFigures({ state: "slow", shards: { up: 2, slow: 1, away: 0, returned: 0 }, replicas: 2 }),
  ];
  const { main, readings, workers } = await started(4, stores);
  for (const worker of workers) worker.storeAnswered(0.25);
  const series = await scrape(main);
  expect(Object.fromEntries(series)).toMatchObject({
    'headgate_store_state{state="away"}': 1,
    'headgate_store_state{state="up"}': 0,
    'headgate_store_state{state="slow"}': 0,
    'headgate_store_state{state="returned"}': 0,
    'headgate_store_shards{state="away"}': 2,
    'headgate_store_shards{state="up"}': 1,
    'headgate_store_shards{state="returned"}': 0,
    headgate_store_replicas: 5,
    'headgate_store_calls_total{result="answered"}': 44,
    'headgate_store_alone_total{mode="closed"}': 112,
    headgate_store_held_units: 67,
    headgate_store_forgot_total: 91,
    headgate_store_call_duration_seconds_count: 4,
    headgate_store_call_duration_seconds_sum: 1,
  });
  expect(main.storeHealth()).toEqual({ state: "away", shards: away, replicas: 5, sinceMs: 7 });
  readings.remove(2);
  readings.remove(3);
  expect(main.storeHealth()).toMatchObject({ state: "returned", replicas: 3, sinceMs: 1 });
});

test("a scrape over workers with a store has the families and the series of one thread with one", async () => {
  const { main } = await started(2, [storeFigures(), storeFigures()]);
  const { workers } = await started(1, [storeFigures()]);
  const [only] = workers;
  if (only === undefined) throw new Error("there is one");
  const second = 'headgate_event_loop_active_seconds_total{worker="2"}';
  const expected = [...(await scrape(only)).keys(), second].sort();
  expect([...(await scrape(main)).keys()].sort()).toEqual(expected);
  const { main: alone } = await started(0, [storeFigures()]);
  const series = await scrape(alone);
  expect([...series.keys()].filter((name) => name.includes("_store_")).sort()).toEqual(
    expected.filter((name) => name.includes("_store_")),
  );
  expect(series.get('headgate_store_calls_total{result="answered"}')).toBe(0);
});

test("without a store, threads and the main thread say nothing of one", async () => {
  const { main, workers } = await started(2);
  expect([...(await scrape(main)).keys()].filter((name) => name.startsWith("headgate_store_"))).toEqual([]);
  expect([main.storeHealth(), workers[0]?.storeHealth()]).toEqual([null, null]);
});
