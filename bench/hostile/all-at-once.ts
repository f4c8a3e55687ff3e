// Runs all attacks at the same time from one address, and measures the requests of other clients meanwhile. A gateway
// has one traffic listener, so there are three groups: plain with all other ports, TLS, and the PROXY protocol.
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Carrier, Counters } from "./attack.ts";
import { forgetPeak, type GatewayPlace, memoryOf, startGateway, threadsCpuUs } from "./gateway-process.ts";
import { goals, quantile } from "./goals.ts";
import { endOthers, othersOrder, readOthers } from "./others.ts";
import type { OthersReply } from "./others-process.ts";
import { machineText } from "./report.ts";
import { type Bench, runAll } from "./run.ts";

interface Group {
  readonly title: string;
  /** The kind of gateway; the first one has all ports. */
  readonly carrier: Carrier;
  readonly carriers: readonly Carrier[];
}

const groups: readonly Group[] = [
  {
    title: "HTTP/1.1, ext-auth listeners, tunnels, admin listener, upstream",
    carrier: "ext-auth",
    carriers: ["http1", "ext-auth", "grpc", "tunnel", "admin", "upstream"],
  },
  { title: "TLS and HTTP/2", carrier: "tls", carriers: ["tls", "http2"] },
  { title: "PROXY protocol", carrier: "proxy", carriers: ["proxy"] },
];

/**
 * The part of its rate that each attack has: all of them at full rate would overload any machine with ordinary work.
 */
const share = 0.1;
const warmSeconds = 3;
const aloneSeconds = 15;
/** Enough that their requests stay within their quotas. */
const addresses = 200;

interface Together {
  readonly group: Group;
  readonly attacks: number;
  readonly counters: Counters;
  /** Part of a core. */
  readonly cpuShare: number;
  readonly restBytes: number;
  readonly peakBytes: number;
  readonly alone: OthersReply;
  readonly beside: OthersReply;
}

/** Returns Markdown. */
export async function allAtOnce(
  bench: Bench,
  place: GatewayPlace,
  attacks: readonly Attack[],
  command: string,
): Promise<string> {
  const rows: string[] = [];
  for (const group of groups) {
    // What takes time to open comes from many addresses, which together may hold all connections to the upstream.
    const ofOneAddress = attacks.filter(({ openingSeconds }) => openingSeconds === undefined);
    const chosen = ofOneAddress.filter(({ carrier }) => group.carriers.includes(carrier));
    if (chosen.length > 0) rows.push(row(await measureGroup(bench, place, group, chosen)));
  }
  return [`\`${command}\`, ${bench.seconds} s for each listener, ${machineText()}.\n`, head, ...rows, ""].join("\n");
}

async function measureGroup(
  bench: Bench,
  place: GatewayPlace,
  group: Group,
  attacks: readonly Attack[],
): Promise<Together> {
  const gateway = await startGateway(place, { carrier: group.carrier });
  const { pid } = gateway.child;
  try {
    await bench.others.ask(othersOrder(gateway.ports, { carrier: group.carrier, others: "kept" }, { addresses }));
    await sleep(warmSeconds * 1000);
    await bench.others.ask(readOthers);
    await sleep(aloneSeconds * 1000);
    const alone = await bench.others.ask<OthersReply>(readOthers);
    const restBytes = memoryOf(pid).nowBytes;
    forgetPeak(pid);
    const [beforeUs, beganMs] = [threadsCpuUs(pid), performance.now()];
    const counters = await runAll(bench, gateway, attacks, share);
    const beside = await bench.others.ask<OthersReply>(endOthers);
    const cpuShare = (threadsCpuUs(pid) - beforeUs) / 1000 / (performance.now() - beganMs);
    const { peakBytes } = memoryOf(pid);
    return { group, attacks: attacks.length, counters, cpuShare, restBytes, peakBytes, alone, beside };
  } finally {
    await gateway.child.stop();
  }
}

const head = `| listener | attacks | MB sent | CPU | MiB before, peak | p50 ms | p99 ms | longest ms | answered | lost | misses |
|---|---|---|---|---|---|---|---|---|---|---|`;

function row({ group, attacks, counters, cpuShare, restBytes, peakBytes, alone, beside }: Together): string {
  const both = (share: number): string =>
    `${quantile(alone, share).toFixed(1)} → ${quantile(beside, share).toFixed(1)}`;
  const isSlow = quantile(beside, 0.99) > goals.p99 * quantile(alone, 0.99);
  const cells = [
    group.title,
    attacks,
    (counters.bytes / 1e6).toFixed(0),
    `${(100 * cpuShare).toFixed(0)} %`,
    [restBytes, peakBytes].map((bytes) => (bytes / 1024 / 1024).toFixed(0)).join(", "),
    both(0.5),
    both(0.99),
    both(1),
    beside.answered,
    beside.failed,
    [...(isSlow ? ["p99"] : []), ...(beside.failed > 0 ? ["lost"] : [])].join(", "),
  ];
  return `| ${cells.join(" | ")} |`;
}
