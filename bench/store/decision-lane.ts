// The decisions of one gateway without its proxy: the limiter, the store and the connection to Redis, asked at a constant
// rate by one request at a time. A process of its own, run by leases.ts with its task; prints "ready", begins at a line of its
// input, and prints one line of JSON.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/core/clock.ts";
import { addressKey } from "../../src/core/counter-key.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import type { ParsedRequest } from "../../src/core/request-head.ts";
import type { SharedStoreSettings } from "../../src/core/store-link.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { openRedisLink } from "../../src/limits/store/redis/link.ts";
import { storeScript } from "../../src/limits/store/script.ts";
import { Store } from "../../src/limits/store/store.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { limitedRequest } from "../../test/support/limited-request.ts";
import { slidingPolicy } from "../../test/support/policy.ts";
import { startTicks } from "./ticks.ts";

export interface LaneTask {
  /** Null: without a store. */
  readonly storePort: number | null;
  readonly lane: number;
  readonly keys: number;
  readonly limit: number;
  readonly windowMs: number;
  readonly waitMs: number;
  readonly perSecond: number;
  readonly warmUpMs: number;
  readonly measuredMs: number;
}

export interface LaneResult {
  /** From the instant at which the request was due, in microseconds. */
  readonly latenciesUs: readonly number[];
  /** From sending a call to its answer. */
  readonly callsUs: readonly number[];
  readonly refused: number;
  readonly alone: number;
  readonly late: number;
  readonly cpuUs: number;
}

const task: LaneTask = JSON.parse(process.argv[2] ?? "");
const { storePort, lane, keys, limit, windowMs, waitMs, warmUpMs, measuredMs } = task;
const { monotonicMs } = systemClock;
const callsUs: number[] = [];
const table = new CounterTable(createTableMemory(64 * 2 ** 20), { secret: Buffer.alloc(16, 7) });

function openStore(port: number): Store {
  const link = openRedisLink(
    {
      servers: { kind: "one", address: { host: "127.0.0.1", port } },
      ...{ database: 0, username: null, passwordFile: null, tls: null },
    },
    { script: storeScript, readFile: (path) => readFile(path, "utf8") },
  );
  const timers = {
    after(ms: number, run: () => void) {
      const timer = setTimeout(run, ms).unref();
      return { cancel: () => clearTimeout(timer) };
    },
    endOfTurn: (run: () => void) => void setImmediate(run),
  };
  const settings: SharedStoreSettings = {
    ...{ prefix: "headgate:", waitMs, lease: { durationMs: 1000, most: 1000 }, maxKeys: 1_000_000 },
    onFailure: "local",
    replicas: "auto",
  };
  const opened = new Store({
    ...{ link, settings, clock: systemClock, timers, table, secret: Buffer.alloc(16, 7) },
    ...{ gateway: `lane${lane}`.padEnd(12, "-"), thread: "-".repeat(10) },
    ...{ onSecret() {}, onChange() {}, onGone() {}, onIdentity() {}, onWaited() {} },
    onAnswered: (seconds) => void callsUs.push(Math.round(seconds * 1e6)),
  });
  opened.open();
  return opened;
}

const store = storePort === null ? null : openStore(storePort);
const limiter = new PolicyLimiter([slidingPolicy({ limit, windowMs })], { clock: systemClock, table, store });
const { request: base, head } = limitedRequest();
const requests: ParsedRequest[] = Array.from({ length: keys }, (_, i) => {
  const client = `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
  const cidr = parseCidr(client);
  if (cidr === undefined) throw new Error(client);
  return { ...base, client, counterKey: addressKey(cidr.network, cidr.prefixBits) };
});
while (store !== null && store.figures().state !== "up") await sleep(10);
process.stdout.write("ready\n");
await once(process.stdin, "data");

const latenciesUs: number[] = [];
let refused = 0;
const gapMs = 1000 / task.perSecond;
const beganMs = monotonicMs() + 100 + lane * (gapMs / 3);
const [fromMs, untilMs] = [beganMs + warmUpMs, beganMs + warmUpMs + measuredMs];
let [sent, open] = [0, 0];

function decided(dueMs: number, outcome: string): void {
  if (dueMs < fromMs) return;
  latenciesUs.push(Math.round((monotonicMs() - dueMs) * 1000));
  if (outcome !== "admitted") refused += 1;
}

function askAllDue(): void {
  for (let dueMs = beganMs + sent * gapMs; dueMs <= monotonicMs() && dueMs < untilMs; dueMs += gapMs) {
    sent += 1;
    const request = requests[Math.floor(Math.random() * keys)] as ParsedRequest;
    const decision = limiter.ask(
      { parsed: request, head, identity: null, decision: null, nowMs: monotonicMs() },
      "anonymous",
    );
    if (!(decision instanceof Promise)) {
      decided(dueMs, decision.outcome);
      continue;
    }
    open += 1;
    const due = dueMs;
    void decision.then(({ outcome }) => {
      open -= 1;
      decided(due, outcome);
    });
  }
}

const used = () => {
  const { user, system } = process.cpuUsage();
  const { alone, late } = store?.figures() ?? { alone: { local: 0 }, late: 0 };
  return { cpuUs: user + system, alone: alone.local, late };
};

startTicks(beganMs - monotonicMs(), gapMs, askAllDue);
await sleep(fromMs - monotonicMs());
const before = used();
callsUs.length = 0;
await sleep(untilMs - monotonicMs());
const after = used();
while (open > 0) await sleep(5);
const result: LaneResult = {
  ...{ latenciesUs, callsUs, refused },
  alone: after.alone - before.alone,
  late: after.late - before.late,
  cpuUs: after.cpuUs - before.cpuUs,
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
