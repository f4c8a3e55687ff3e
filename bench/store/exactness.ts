// `node bench/store/exactness.ts`: whether three gateways with one Redis ever admit more than a limit, for minutes, with the
// default `wait`: 20 in 3 s, 100 in 60 s, 100 in a minute of the calendar, and requests that three such policies limit
// together. A window counts as exceeded only if it certainly is: more requests than the limit were sent in it and had
// arrived at the upstream before its end. Each excess is printed with the decisions that the gateways made without the
// store's answer in its window. Ends with 1 if an excess stands beside none. Prints Markdown.
import { parseArgs } from "node:util";
import { monotonicMs } from "../../test/shared-store/client-line.ts";
import { startFleet } from "../../test/shared-store/fleet.ts";
import { type RecordingUpstream, startRecordingUpstream } from "../../test/shared-store/recording-upstream.ts";
import { clientsOf, shared, total } from "../../test/shared-store/stage.ts";
import { admissionsOf, before, type Client } from "../../test/shared-store/traffic.ts";
import { type Admission, windowsAbove } from "../../test/shared-store/windows.ts";
import { type Cleanup, cleanupTo } from "../../test/support/closing.ts";
import { startRedis } from "../../test/support/redis-servers.ts";
import { startNeighbours } from "./neighbours.ts";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, neighbours: { type: "boolean", default: false } },
});
const gateways = 3;
const clientsEach = 6;
/** `seconds`: of a window, or of a period of the calendar. */
interface Limit {
  readonly path: string;
  readonly limit: number;
  readonly seconds: number;
  readonly isCalendar: boolean;
}

const limits: readonly Limit[] = [
  { path: "short", limit: 20, seconds: 3, isCalendar: false },
  { path: "long", limit: 100, seconds: 60, isCalendar: false },
  { path: "minute", limit: 100, seconds: 60, isCalendar: true },
  // Each of them refuses some: one window after another, then the rest of a minute.
  { path: "all", limit: 20, seconds: 3, isCalendar: false },
  { path: "all", limit: 150, seconds: 45, isCalendar: false },
  { path: "all", limit: 180, seconds: 60, isCalendar: true },
];
const policies = limits.map(({ path, limit, seconds, isCalendar }) => ({
  name: `${path}-${limit}`,
  limit,
  ...(isCalendar ? { per: "minute" } : { window: `${seconds}s` }),
  match: { paths: [`/v1/${path}/`] },
}));
/** As often as the gateways are asked how many answers were late. */
const sampleMs = 200;

/** What the gateways have counted until an instant. */
interface Sample {
  readonly atMs: number;
  readonly late: number;
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const anyOf = (count: number): number => Math.floor(Math.random() * count);

/** Asks at the edge of the first limit of a path, but for one client that asks as fast as it can. */
function loadOf(client: (path: string) => Client, { path, limit, seconds }: Limit, endMs: number) {
  const perSecond = (1.05 * limit) / seconds;
  const clients = Array.from({ length: clientsEach }, () => client(`/v1/${path}`));
  const done = clients.map((each, i) =>
    i === 0 ? each.greedy(before(endMs)) : each.steady(before(endMs), perSecond, anyOf),
  );
  return { clients, done: Promise.all(done) };
}

/** The windows, or periods of the calendar, that certainly have more than the limit. */
function excessesOf(admissions: readonly Admission[], { limit, seconds, isCalendar }: Limit) {
  const windowMs = seconds * 1000;
  if (!isCalendar) return windowsAbove(admissions, windowMs, limit);
  const aheadMs = Date.now() - monotonicMs();
  const startOf = (atMs: number): number => Math.floor((atMs + aheadMs) / windowMs) * windowMs - aheadMs;
  const certain = admissions.filter(({ fromMs, untilMs }) => startOf(fromMs) === startOf(untilMs));
  const periods = Map.groupBy(certain, ({ fromMs }) => startOf(fromMs));
  return [...periods].map(([startMs, all]) => ({ startMs, count: all.length })).filter(({ count }) => count > limit);
}

/** Prints a row for a limit and one for each excess; returns how many stand beside no late decision. */
async function judge(
  judged: Limit,
  clients: readonly Client[],
  upstream: RecordingUpstream,
  samples: readonly Sample[],
): Promise<number> {
  const { path, limit, seconds, isCalendar } = judged;
  const windowMs = seconds * 1000;
  const visits = await upstream.visits();
  const admitted = clients.map(({ asked }) => admissionsOf(asked, visits));
  const asked = clients.reduce((sum, client) => sum + client.asked.length, 0);
  const excesses = admitted.flatMap((admissions) => excessesOf(admissions, judged));
  const lateIn = (fromMs: number, untilMs: number): number => {
    const first = samples.findLast(({ atMs }) => atMs <= fromMs)?.late ?? 0;
    // The one after the end: an instant is taken after its count.
    const last = samples[samples.findIndex(({ atMs }) => atMs >= untilMs) + 1] ?? samples.at(-1);
    return (last?.late ?? 0) - first;
  };
  const worst = excesses.reduce((most, { count }) => Math.max(most, count), 0);
  const unexplained = excesses.filter(({ startMs }) => lateIn(startMs, startMs + windowMs) === 0);
  const counts = [asked, admitted.flat().length, excesses.length, worst || "none", unexplained.length];
  const length = isCalendar ? "a minute of the calendar" : `${seconds} s`;
  print(`| ${path}: ${limit} in ${length} | ${counts.join(" | ")} |`);
  for (const { startMs, count } of unexplained)
    process.stderr.write(`${path}: ${count} from ${startMs.toFixed(1)} ms\n`);
  return unexplained.length;
}

async function measure(cleanup: Cleanup): Promise<number> {
  const upstream = await startRecordingUpstream(cleanup);
  const redis = await startRedis();
  cleanup(() => redis.stop());
  const settings = [
    ...["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${redis.port}`],
    `policies=${JSON.stringify(policies)}`,
  ];
  const fleet = await startFleet(cleanup, upstream.url, gateways, settings);
  await shared(fleet.gateways, gateways);
  if (values.neighbours) cleanup(startNeighbours());
  const late = (): Promise<number> => total(fleet.gateways, "headgate_store_late_total");
  const samples: Sample[] = [{ atMs: monotonicMs(), late: await late() }];
  const client = clientsOf(cleanup, fleet);
  const endMs = monotonicMs() + Number(values.minutes) * 60_000;
  const loads = [...Map.groupBy(limits, ({ path }) => path).values()].map((together) => ({
    together,
    ...loadOf(client, together[0] as Limit, endMs),
  }));
  while (monotonicMs() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, sampleMs));
    // The answer has all that was counted before this instant, and perhaps some of what was counted after it.
    samples.push({ atMs: monotonicMs(), late: await late() });
  }
  await Promise.all(loads.map(({ done }) => done));
  samples.push({ atMs: monotonicMs(), late: await late() });
  print(
    `${values.minutes} minutes, ${values.neighbours ? "all processors used by others, too" : "nothing else running"}; `,
  );
  print(`decisions without the store's answer: ${(samples.at(-1)?.late ?? 0) - (samples[0]?.late ?? 0)}\n`);
  print("| limit | asked | admitted | windows exceeded | worst window | of them without a late decision |");
  print("|---|---|---|---|---|---|");
  let unexplained = 0;
  for (const { together, clients } of loads)
    for (const limit of together) unexplained += await judge(limit, clients, upstream, samples);
  return unexplained;
}

const undo: (() => unknown)[] = [];
try {
  if ((await measure(cleanupTo((run) => void undo.unshift(run)))) > 0) process.exitCode = 1;
} finally {
  for (const run of undo) await run();
}
