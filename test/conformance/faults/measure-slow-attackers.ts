// What slow attackers cost a client that behaves: its 99th percentile alone and beside 2,000 of them, in milliseconds.
// Run by hand (`node test/conformance/faults/measure-slow-attackers.ts [head] [body] [read]`); a figure is no test. The
// results stand in docs/threat-model.md.
import { cpus, release } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type Attack, attack, attackers, attacks, startGoodClient, startTarget } from "./slow-attackers.ts";

const rounds = 5;
const measuredMs = 8_000;
/** Long enough for all attackers to be there, and for what was compiled late. */
const settlingMs = 3_000;

interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

/** The good client's own figures, once what is around it has settled. */
async function measure(port: number): Promise<Percentiles> {
  const settling = startGoodClient(port);
  await sleep(settlingMs);
  await settling.stop();
  const good = startGoodClient(port);
  await sleep(measuredMs);
  await good.stop();
  if (good.failures.length > 0) throw new Error(good.failures.join("\n"));
  const sorted = good.tookMs.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}

/** A gateway of its own for each, with the timeouts as they are by default. */
async function round(kind: Attack): Promise<{ alone: Percentiles; beside: Percentiles; connections: number }> {
  const open: (() => unknown)[] = [];
  const cleanup = (close: () => unknown): void => void open.push(close);
  try {
    const gateway = await startTarget(cleanup, []);
    const alone = await measure(gateway.port);
    const attacked = attack(cleanup, kind, gateway.port, 60);
    const beside = await measure(gateway.port);
    const connections = (await gateway.figures()).get("headgate_client_connections") ?? Number.NaN;
    for (const close of open.splice(0).reverse()) await close();
    await attacked;
    return { alone, beside, connections };
  } finally {
    for (const close of open.reverse()) await close();
  }
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

process.stdout.write(`Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model}, Linux ${release()}\n`);
process.stdout.write(`${attackers} attackers; medians of ${rounds} rounds, milliseconds\n\n`);
process.stdout.write(
  "| slow | p50 alone | p50 beside | p99 alone | p99 beside | ratio of p99 |\n|---|---|---|---|---|---|\n",
);
const kinds = Object.keys(attacks) as Attack[];
const wanted = process.argv.slice(2);
for (const kind of wanted.length === 0 ? kinds : kinds.filter((kind) => wanted.includes(kind))) {
  const results: Awaited<ReturnType<typeof round>>[] = [];
  for (let i = 0; i < rounds; i += 1) results.push(await round(kind));
  const figures = [
    median(results.map(({ alone }) => alone.p50)),
    median(results.map(({ beside }) => beside.p50)),
    median(results.map(({ alone }) => alone.p99)),
    median(results.map(({ beside }) => beside.p99)),
    median(results.map(({ alone, beside }) => beside.p99 / alone.p99)),
  ];
  process.stdout.write(`| ${kind} | ${figures.map((figure) => figure.toFixed(2)).join(" | ")} |\n`);
  process.stderr.write(`${kind}: ${results.map(({ connections }) => connections).join(", ")} connections at the end\n`);
}
