// The goals and what a run found: ratios are taken within each round, and the median of the rounds is shown.
import type { AskedResult } from "./asked.ts";
import { bareTls } from "./contenders.ts";
import { isPresent, median, shown } from "./figures.ts";
import { bytesOfOne } from "./idle.ts";
import type { Results } from "./results.ts";
import { type Measurement, type Tail, unlogged } from "./runs.ts";

interface Goal {
  readonly what: string;
  readonly goal: number;
  readonly beyond?: number;
  readonly unit?: string;
  readonly digits?: number;
  /** NaN where the run has no figure. */
  readonly found: (results: Results) => number;
}

const nginx = "nginx limit_req";
const haproxy = "HAProxy stick-table";
/** Of a proxied GET before work on allocations began. */
const bytesBefore = 11_430;

const goals: readonly Goal[] = [
  { what: "CPU of a proxied GET, × nginx", goal: 1.3, beyond: 1.1, found: cpuRatio("get-64", nginx) },
  { what: "… × HAProxy", goal: 1, found: cpuRatio("get-64", haproxy) },
  { what: "CPU of a 429, × nginx", goal: 1.3, beyond: 1.1, found: cpuRatio("throttled", nginx) },
  { what: "CPU of a POST with 4 KiB, × nginx", goal: 1.5, found: cpuRatio("post-4k", nginx) },
  { what: "CPU of 20 KiB, × nginx", goal: 1, found: cpuRatio("get-20k", nginx) },
  { what: "CPU of 1 MiB, × nginx", goal: 1, found: cpuRatio("get-1m", nginx) },
  { what: "CPU on a new connection, × nginx", goal: 1.8, found: cpuRatio("fresh", nginx) },
  { what: "CPU with the access log, × without", goal: 1.15, found: cpuRatio("get-64-logged", unlogged) },
  { what: "CPU over TLS, × nginx", goal: 1.6, found: cpuRatio("tls", nginx) },
  { what: "CPU of a GET with a field of UTF-8, × nginx", goal: 1.4, beyond: 1.2, found: cpuRatio("get-utf8", nginx) },
  { what: "… with an odd query, × nginx", goal: 1.4, beyond: 1.2, found: cpuRatio("get-odd-query", nginx) },
  { what: "… after a POST in chunks, × nginx", goal: 1.4, beyond: 1.2, found: cpuRatio("get-after-chunks", nginx) },
  { what: "CPU of a POST with 64 KiB, × nginx", goal: 1.2, beyond: 1, found: cpuRatio("post-64k", nginx) },
  { what: "… in chunks of 8 KiB, × nginx", goal: 1.5, beyond: 1.2, found: cpuRatio("post-64k-chunks", nginx) },
  { what: "CPU of a POST with Expect, × nginx", goal: 1.6, found: cpuRatio("post-expect", nginx) },
  { what: "CPU over HTTP/2, one stream, × nginx", goal: 1.3, beyond: 1.1, found: cpuRatio("h2", nginx) },
  { what: "… ten streams, × nginx", goal: 1, beyond: 0.6, found: cpuRatio("h2-10", nginx) },
  { what: "… 1 MiB to the client, × nginx", goal: 1.2, found: cpuRatio("h2-get-1m", nginx) },
  { what: "… 1 MiB from the client, × nginx", goal: 1.2, found: cpuRatio("h2-post-1m", nginx) },
  { what: "CPU to an upstream over TLS, × nginx", goal: 1.4, found: cpuRatio("tls-upstream", nginx) },
  { what: "CPU of a check over HTTP, × a 429's", goal: 1.3, found: askedRatio("http", "429") },
  { what: "… over gRPC, × over HTTP", goal: 1.5, found: askedRatio("grpc", "http") },
  { what: "p99 added at 500 requests/s, × HAProxy's", goal: 1.5, found: addedRatio },
  { what: "p99 at half of full load, × nginx's", goal: 1.2, found: tailRatio(({ p99Us }) => p99Us) },
  { what: "… p99.9", goal: 1.2, found: tailRatio(({ p999Us }) => p999Us) },
  { what: "p99 under full load, × nginx's", goal: 2, found: fullLoadRatio(({ p99Us }) => p99Us) },
  { what: "… p99.9", goal: 3, found: fullLoadRatio(({ p999Us }) => p999Us) },
  {
    what: "start to first answer",
    goal: 200,
    unit: " ms",
    digits: 0,
    found: ({ footprints }) => median(footprints.filter(isHeadgate).map(({ startMs }) => startMs)),
  },
  {
    what: "idle resident memory, probed and scraped",
    goal: 70,
    beyond: 60,
    unit: " MiB",
    digits: 0,
    found: ({ footprints }) => median(footprints.filter(isHeadgate).map(({ idleBytes }) => idleBytes)) / 2 ** 20,
  },
  {
    what: "an idle connection of HTTP/2, above one of node:tls",
    goal: 8_000,
    unit: " bytes",
    digits: 0,
    found: aboveBareTls,
  },
  {
    what: `allocated for a proxied GET (a third of ${bytesBefore})`,
    goal: Math.round(bytesBefore / 3),
    unit: " bytes",
    digits: 0,
    found: ({ allocations }) =>
      allocations.find(({ checkout, scenario }) => checkout === "Headgate" && scenario === "get-64")?.heapBytes ??
      Number.NaN,
  },
  {
    what: "a decision among 1,000 clients",
    goal: 100,
    unit: " ns",
    digits: 0,
    found: (all) => ownDecision(all, 1_000)?.decisionNs ?? Number.NaN,
  },
  { what: "… among 100,000, × the fastest peer's", goal: 0.4, found: (all) => decisionRatio(all, 100_000) },
  { what: "… among 1,000,000, × the fastest peer's", goal: 0.4, found: (all) => decisionRatio(all, 1_000_000) },
  {
    what: "memory of a client with one request",
    goal: 110,
    unit: " bytes",
    digits: 0,
    found: (all) => ownDecision(all, 100_000)?.bytesPerClient ?? Number.NaN,
  },
];

export function goalsTable(results: Results): string {
  const rows = goals.map(({ what, goal, beyond, unit = "", digits = 2, found }) => {
    const figure = found(results);
    const limits = [`≤ ${goal}${unit}`, beyond === undefined ? "" : `≤ ${beyond}${unit}`];
    return `| ${[what, ...limits, shown(figure, digits, unit), verdict(figure, goal, beyond)].join(" | ")} |`;
  });
  const head = `| measure | goal | beyond | found on ${results.settings.date} | met |`;
  return [head, "|---|---|---|---|---|", ...rows, ""].join("\n");
}

function verdict(figure: number, goal: number, beyond = Number.NEGATIVE_INFINITY): string {
  if (!isPresent(figure)) return "–";
  if (figure <= beyond) return "beyond";
  return figure <= goal ? "yes" : "**no**";
}

function isHeadgate({ contender }: { readonly contender: string }): boolean {
  return contender === "Headgate";
}

function cpuRatio(scenario: string, peer: string): (results: Results) => number {
  return (results) => {
    const cpuUs = (name: string, round: number): number => {
      const one = results.measurements.find(
        (each) => each.scenario === scenario && each.contender === name && each.round === round,
      );
      return one === undefined ? Number.NaN : one.userUs + one.systemUs;
    };
    return medianOverRounds(results, (round) => cpuUs("Headgate", round) / cpuUs(peer, round));
  };
}

function askedRatio(asked: AskedResult["id"], peer: AskedResult["id"]): (results: Results) => number {
  return (results) => {
    const cpuUs = (id: AskedResult["id"], round: number): number =>
      results.asked.find((one) => one.id === id && one.round === round)?.cpuUs ?? Number.NaN;
    return medianOverRounds(results, (round) => cpuUs(asked, round) / cpuUs(peer, round));
  };
}

/** Of an idle connection of HTTP/2, in bytes. */
function aboveBareTls(results: Results): number {
  const bytes = (name: string, round: number): number => {
    const one = results.idle.find(
      ({ kind, contender, round: its }) => kind === "h2" && contender === name && its === round,
    );
    return one === undefined ? Number.NaN : bytesOfOne(one);
  };
  return medianOverRounds(results, (round) => bytes("Headgate", round) - bytes(bareTls.name, round));
}

function addedRatio(results: Results): number {
  const p99 = (name: string, round: number): number =>
    results.latencies.find((one) => one.arrival === "one by one" && one.contender === name && one.round === round)
      ?.p99Us ?? Number.NaN;
  const added = (name: string, round: number): number => p99(name, round) - p99("no proxy", round);
  return medianOverRounds(results, (round) => added("Headgate", round) / added(haproxy, round));
}

function tailRatio(quantileOf: (tail: Tail) => number): (results: Results) => number {
  return (results) => {
    const found = (name: string, round: number): number => {
      const one = results.tails.find((tail) => tail.contender === name && tail.round === round);
      return one === undefined ? Number.NaN : quantileOf(one);
    };
    return medianOverRounds(results, (round) => found("Headgate", round) / found(nginx, round));
  };
}

function fullLoadRatio(quantileOf: (one: Measurement) => number): (results: Results) => number {
  return (results) => {
    const found = (name: string, round: number): number => {
      const one = results.measurements.find(
        ({ scenario, contender, round: of }) => scenario === "get-64" && contender === name && of === round,
      );
      return one === undefined ? Number.NaN : quantileOf(one);
    };
    return medianOverRounds(results, (round) => found("Headgate", round) / found(nginx, round));
  };
}

function medianOverRounds({ settings }: Results, figure: (round: number) => number): number {
  return median(Array.from({ length: settings.rounds }, (_, round) => figure(round)));
}

function ownDecision({ decisions }: Results, count: number) {
  return decisions.find(({ store, clients }) => store === "Headgate" && clients === count);
}

function decisionRatio(results: Results, count: number): number {
  const peers = results.decisions.filter(({ store, clients }) => clients === count && !store.startsWith("Headgate"));
  if (peers.length === 0) return Number.NaN;
  return (ownDecision(results, count)?.decisionNs ?? Number.NaN) / Math.min(...peers.map((peer) => peer.decisionNs));
}
