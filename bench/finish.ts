// What the end of an exchange costs without and with what is remembered of the last minutes: `node bench/finish.ts`. Prints
// the median and the least of several rounds, in processor time, and the bytes that V8 has allocated for each call. Nothing else should run meanwhile.
import { getHeapStatistics } from "node:v8";
import { systemClock } from "../src/core/clock.ts";
import { CounterKey } from "../src/core/counter-key.ts";
import type { ExchangeRecord } from "../src/core/exchange-record.ts";
import { noHead } from "../src/limits/request-keys.ts";
import { createLog, keptTarget } from "../src/telemetry/log.ts";
import { HistoryRow } from "../src/telemetry/recent/history.ts";
import { ThreadRecent } from "../src/telemetry/recent/thread-recent.ts";
import { createTelemetry } from "../src/telemetry/telemetry.ts";
import { createRequestIds } from "../src/upstream/request-fields.ts";
import { decisionOf, slidingPolicy } from "../test/support/policy.ts";
import { median } from "./figures.ts";

const rounds = 15;
const calls = 200_000;
const clients = 100_000;
const callsBetweenBatches = 50_000;
const policy = slidingPolicy({ limit: 100, windowMs: 60_000 });
const newId = createRequestIds();
const ids = Array.from({ length: 20_000 }, newId);

function telemetryOf(recent: ThreadRecent | null) {
  const destination = { write() {}, flush: (done?: () => void) => done?.() };
  const telemetry = createTelemetry({
    ...{ log: createLog({ level: "silent", clock: systemClock, destination }), clock: systemClock, recent },
    droppedLogLines: () => 0,
  });
  telemetry.metrics.addSeries({ routes: ["/v1/", "/v2/"], policies: [] });
  return telemetry;
}

const admitted = decisionOf({ outcome: "admitted", policy, remaining: 99, resetMs: 61_000 });
const refusals = Array.from({ length: clients }, (_, i) => {
  const key = new CounterKey(0, 0, 0xffff, 0x0a000000 + i, true);
  const decision = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: 61_000 });
  return { client: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, decision: { ...decision, key, client: key } };
});

/** Of this thread, so that other programs count less. */
function cpuNs(): number {
  const { user, system } = process.threadCpuUsage();
  return 1000 * (user + system);
}

/** One object of one shape for all calls, as the exchanges of a gateway have one. */
const record: { -readonly [Name in keyof ExchangeRecord]: ExchangeRecord[Name] } = {
  ...{ source: "proxy", head: { ...noHead, target: "/v2/transactions/1234" }, id: "", traceId: null },
  requestId: null,
  ...{ method: "GET", route: "/v2/", client: "10.0.0.1", isProbe: false, decision: admitted },
  ...{ auth: "accepted", subject: null },
  ...{ startedMs: 1_000, queuedMs: null, dispatchedMs: 1_002, answeredMs: 1_042, respondedMs: 1_043, endedMs: 1_050 },
  ...{
    status: 200,
    problem: null,
    detail: null,
    fault: null,
    rule: null,
    bytesReceived: 90,
    bytesSent: 567,
    complete: true,
  },
};

type Prepare = (call: number) => void;

const cases: readonly [name: string, prepare: Prepare][] = [
  ["admitted", (call) => set(call, refusals[0]?.client ?? "", admitted, false)],
  ["refused, one client", (call) => set(call, refusals[0]?.client ?? "", refusals[0]?.decision ?? admitted, true)],
  [
    `refused, ${clients} clients`,
    (call) => {
      const refusal = refusals[(call * 7_919) % clients];
      set(call, refusal?.client ?? "", refusal?.decision ?? admitted, true);
    },
  ],
];

function set(call: number, client: string, decision: ExchangeRecord["decision"], isRefused: boolean): void {
  record.id = ids[call % ids.length] ?? "";
  record.client = client;
  record.decision = decision;
  record.status = isRefused ? 429 : 200;
  record.problem = isRefused ? "throttled" : null;
  record.dispatchedMs = isRefused ? null : 1_002;
  record.answeredMs = isRefused ? null : 1_042;
}

const history = new HistoryRow(HistoryRow.createMemory(), 0);
const sizes = { refusals: 10_000, keys: 1_000 };
const recent = new ThreadRecent({ sizes, clock: systemClock, history, targetOf: keptTarget, requestIdOf: () => null });
const nothing = { finishUnlogged: (_record: ExchangeRecord, _path: string): void => {} };
const ways = { loop: nothing, without: telemetryOf(null), with: telemetryOf(recent) };

for (const [name, prepare] of cases) {
  const figures = Object.fromEntries(
    Object.keys(ways).map((way) => [way, { ns: [] as number[], bytes: [] as number[] }]),
  );
  for (let round = 0; round < rounds; round += 1) {
    for (const [way, { finishUnlogged }] of Object.entries(ways)) {
      const before = getHeapStatistics().total_allocated_bytes;
      const start = cpuNs();
      for (let call = 0; call < calls; call += 1) {
        prepare(call);
        finishUnlogged(record, "/v2/transactions/1234");
        // As the gateway does once a second, which refuses fewer.
        if (call % callsBetweenBatches === 0) recent.take();
      }
      figures[way]?.ns.push((cpuNs() - start) / calls);
      figures[way]?.bytes.push((getHeapStatistics().total_allocated_bytes - before) / calls);
    }
  }
  const texts = Object.entries(figures).map(
    ([way, { ns, bytes }]) =>
      `${way} ${median(ns).toFixed(0)} (least ${Math.min(...ns).toFixed(0)}) ns ${median(bytes).toFixed(1)} B`,
  );
  process.stdout.write(`${name}: ${texts.join(", ")}\n`);
}
