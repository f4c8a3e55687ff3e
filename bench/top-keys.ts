// What it costs to list the clients by use, with a million of them: `node bench/top-keys.ts`. Fills a table, then reads the
// first hundred several times, and prints the processor time and the longest portion, during which nothing else runs.
import { randomBytes } from "node:crypto";
import { addressKey } from "../src/core/counter-key.ts";
import { Ask } from "../src/limits/counters.ts";
import { createKeySearch } from "../src/limits/key-listing.ts";
import { createCounters } from "../src/limits/policies.ts";
import { CounterTable, createTableMemory } from "../src/limits/table/counter-table.ts";
import { TopKeys, type TopQuery } from "../src/limits/table/top-keys.ts";

const keys = 1_000_000;
const windowMs = 60_000;
const slot = 0;
const runs = 10;
const nowMs = 1_000_000;

const table = new CounterTable(createTableMemory(128 * 1024 * 1024), { secret: randomBytes(16) });
const rate = { kind: "sliding", windowMs } as const;
const policy = {
  ...{ name: "per-ip", rate, limit: 100, cost: 1, key: [{ kind: "client" } as const], who: null, chargeStatuses: null },
  ...{ match: { paths: [], methods: [] }, mode: "enforce" as const, exempt: [], overrides: [] },
};
const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs, wallMsAt: () => nowMs };
const counters = createCounters(policy, table, slot, clock);
counters.comeIntoForce(nowMs, false);
const ask = Object.assign(new Ask(), { limit: 100 });
/** Half are IPv4 addresses, half IPv6 networks. One in a hundred has used 7 units, some have expired ones. */
for (let i = 0; i < keys; i += 1) {
  const low = [(i >>> 16) & 0xffff, i & 0xffff];
  const address =
    i % 2 === 0 ? [0, 0, 0, 0, 0, 0xffff, 0x0a00 | (low[0] ?? 0), low[1] ?? 0] : [0x2001, ...low, 0, 0, 0, 0, 0];
  const key = addressKey(address, 64);
  Object.assign(ask, { key, client: key });
  for (let unit = i % 100 === 0 ? 7 : 1; unit > 0; unit -= 1) {
    counters.select(ask);
    counters.ask(ask, i % 10 === 0 && unit === 7 ? nowMs - windowMs : nowMs - unit * 100);
    counters.charge(ask);
  }
}
const stored = table.figures().bySlot[slot]?.keys ?? 0;
process.stdout.write(`${stored} keys\n`);

const spans = [{ now: nowMs, window: windowMs, limit: 100, hasInstants: true }];
const matches = (text: string): TopQuery["matches"] => createKeySearch(text, 64, new Map());
const queries: Readonly<Record<string, TopQuery>> = {
  "by use": { slot: null, sort: "used", matches: null, limit: 100 },
  "by use, the first 1,000": { slot: null, sort: "used", matches: null, limit: 1000 },
  "the latest": { slot: null, sort: "recent", matches: null, limit: 100 },
  "in 10.3.0.0/16": { slot: null, sort: "used", matches: matches("10.3.0.0/16"), limit: 100 },
  "beginning with 10.3.20": { slot: null, sort: "used", matches: matches("10.3.20"), limit: 100 },
  "beginning with 2001:5:2": { slot: null, sort: "used", matches: matches("2001:5:2"), limit: 100 },
  "beginning with 2": { slot: null, sort: "used", matches: matches("2"), limit: 100 },
};
for (const [name, query] of Object.entries(queries)) {
  const portions: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    const before = process.cpuUsage();
    let portion = 0;
    const top = new TopKeys(table.memory, [query], spans);
    for (let isLast = false; !isLast; ) {
      const beganMs = performance.now();
      isLast = top.readPortion();
      // Each run reads the same portions: what else the machine does is not in the shortest.
      portions[portion] = Math.min(portions[portion] ?? Number.POSITIVE_INFINITY, performance.now() - beganMs);
      portion += 1;
      await new Promise(setImmediate);
    }
    const { user, system } = process.cpuUsage(before);
    const sorted = portions.toSorted((a, b) => a - b);
    const at = (part: number): string => (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(2);
    if (run < runs - 1) continue;
    const found = top.lists()[0]?.length;
    process.stdout.write(
      `${name}: ${((user + system) / 1000).toFixed(0)} ms of processor time, ${portions.length} portions of ${at(0.5)} ms (median), ${at(0.99)} ms (99 of 100), ${at(1)} ms (longest); ${found} keys\n`,
    );
  }
}
