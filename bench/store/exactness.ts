// `node bench/store/exactness.ts`: whether three gateways with one Redis ever admit more than a limit, for minutes, with the
// default `wait`: 20 in 3 s and 100 in 60 s. A window counts as exceeded only if it certainly is: more requests than the
// limit were sent in it and had arrived at the upstream before its end. Each excess is printed with the decisions that the
// gateways made without the store's answer in its window. Ends with 1 if an excess stands beside none. Prints Markdown.
import { parseArgs } from "node:util";
import { monotonicMs } from "../../test/shared-store/client-line.ts";
import { startFleet } from "../../test/shared-store/fleet.ts";
import { type RecordingUpstream, startRecordingUpstream } from "../../test/shared-store/recording-upstream.ts";
import { clientsOf, shared, total } from "../../test/shared-store/stage.ts";
import { admissionsOf, before, type Client } from "../../test/shared-store/traffic.ts";
import { windowsAbove } from "../../test/shared-store/windows.ts";
import type { Cleanup } from "../../test/support/cleanup.ts";
import { startRedis } from "../../test/support/redis-servers.ts";
import { startNeighbours } from "./neighbours.ts";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, neighbours: { type: "boolean", default: false } },
});
const gateways = 3;
const clientsEach = 6;
const policies = [
  { name: "short", limit: 20, window: "3s", match: { paths: ["/v1/short/"] } },
  { name: "long", limit: 100, window: "60s", match: { paths: ["/v1/long/"] } },
];
/** As often as the gateways are asked how many answers were late. */
const sampleMs = 200;

/** What the gateways have counted until an instant. */
interface Sample {
  readonly atMs: number;
  readonly late: number;
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const anyOf = (count: number): number => Math.floor(Math.random() * count);

/** Asks at the edge of the limit, but for one client that asks as fast as it can. */
function loadOf(client: (path: string) => Client, { name, limit, window }: (typeof policies)[number], endMs: number) {
  const perSecond = (1.05 * limit) / Number.parseInt(window, 10);
  const clients = Array.from({ length: clientsEach }, () => client(`/v1/${name}`));
  const done = clients.map((each, i) =>
    i === 0 ? each.greedy(before(endMs)) : each.steady(before(endMs), perSecond, anyOf),
  );
  return { clients, done: Promise.all(done) };
}

/** Prints a row for a policy and one for each excess; returns how many stand beside no late decision. */
async function judge(
  { name, limit, window }: (typeof policies)[number],
  clients: readonly Client[],
  upstream: RecordingUpstream,
  samples: readonly Sample[],
): Promise<number> {
  const windowMs = Number.parseInt(window, 10) * 1000;
  const visits = await upstream.visits();
  const admitted = clients.map(({ asked }) => admissionsOf(asked, visits));
  const asked = clients.reduce((sum, client) => sum + client.asked.length, 0);
  const excesses = admitted.flatMap((admissions) => windowsAbove(admissions, windowMs, limit));
  const lateIn = (fromMs: number, untilMs: number): number => {
    const first = samples.findLast(({ atMs }) => atMs <= fromMs)?.late ?? 0;
    // The one after the end: an instant is taken after its count.
    const last = samples[samples.findIndex(({ atMs }) => atMs >= untilMs) + 1] ?? samples.at(-1);
    return (last?.late ?? 0) - first;
  };
  const worst = excesses.reduce((most, { count }) => Math.max(most, count), 0);
  const unexplained = excesses.filter(({ startMs }) => lateIn(startMs, startMs + windowMs) === 0);
  const counts = [asked, admitted.flat().length, excesses.length, worst || "none", unexplained.length];
  print(`| ${limit} in ${window} | ${counts.join(" | ")} |`);
  for (const { startMs, count } of unexplained)
    process.stderr.write(`${name}: ${count} from ${startMs.toFixed(1)} ms\n`);
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
  const loads = policies.map((policy) => ({ policy, ...loadOf(client, policy, endMs) }));
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
  for (const { policy, clients } of loads) unexplained += await judge(policy, clients, upstream, samples);
  return unexplained;
}

const undo: (() => unknown)[] = [];
try {
  if ((await measure((run) => void undo.unshift(run))) > 0) process.exitCode = 1;
} finally {
  for (const run of undo) await run();
}
