// The cost table as Markdown: one row for each attack, one table for each carrier.
import { cpus, release } from "node:os";
import type { Attack, Carrier } from "./attack.ts";
import { isTls } from "./gateway-process.ts";
import { broken, quantile, together } from "./goals.ts";
import type { Figures } from "./measure.ts";
import { othersKind } from "./others.ts";
import type { OthersReply } from "./others-process.ts";

export interface Outcome {
  readonly command: string;
  readonly seconds: number;
  readonly figures: readonly Figures[];
  /** Of another checkout. */
  readonly before: readonly Figures[];
}

const titles: Readonly<Record<Carrier, string>> = {
  http1: "HTTP/1.1",
  tls: "TLS",
  http2: "HTTP/2",
  "ext-auth": "Checks over HTTP",
  grpc: "Checks over gRPC",
  proxy: "PROXY protocol",
  tunnel: "Tunnels",
  admin: "Admin port",
  upstream: "From the upstream",
};

const head = `| attack | KB sent | requests | CPU ms | µs/request | ms/KB | × ordinary | MiB before, peak, after | longest turn ms | iteration ms | p50 ms | p99 ms | longest ms | lost | misses |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|`;

export function tables(outcome: Outcome): string {
  const { seconds, figures, before } = outcome;
  const carriers = Object.keys(titles).filter((carrier) => figures.some(({ attack }) => attack.carrier === carrier));
  const sections = carriers.map((carrier) => {
    const rows = figures.flatMap((one) => {
      if (one.attack.carrier !== carrier) return [];
      const other = before.find(({ attack }) => attack.name === one.attack.name);
      return [...(other === undefined ? [] : [row(other, before, seconds, "before: ")]), row(one, figures, seconds)];
    });
    return [`### ${titles[carrier as Carrier]}`, "", head, ...rows, ""].join("\n");
  });
  return [`${machine(outcome)}\n`, ...sections, ...steps(figures)].join("\n");
}

function machine({ command, seconds, figures, before }: Outcome): string {
  const failing = (all: readonly Figures[]): number =>
    all.filter((one) => broken(one, aloneOf(one, all), seconds).length > 0).length;
  const compared = before.length === 0 ? "" : `, ${failing(before)} before`;
  const missed = `${failing(figures)} of ${figures.length} attacks miss a goal${compared}.`;
  return `\`${command}\`, ${seconds} s for each attack, ${machineText()}. ${missed}`;
}

export function machineText(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown";
  return `on ${cpus().length} × ${model}, Linux ${release()}, Node ${process.versions.node}`;
}

/** Other clients without an attack: all runs in which they did the same. */
function aloneOf({ attack }: Figures, all: readonly Figures[]): OthersReply {
  const kind = kindOf(attack);
  return together(all.filter((one) => kindOf(one.attack) === kind).map(({ alone }) => alone));
}

function kindOf(attack: Attack): string {
  const way = attack.carrier === "proxy" ? "proxy" : isTls(attack.carrier) ? "tls" : "plain";
  return `${way} ${othersKind(attack)}`;
}

function row(one: Figures, all: readonly Figures[], seconds: number, prefix = ""): string {
  const { attack, bytes, requests, cpuMs, ratio, memory, turn, beside } = one;
  const alone = aloneOf(one, all);
  const both = (share: number): string =>
    `${quantile(alone, share).toFixed(1)} → ${quantile(beside, share).toFixed(1)}`;
  const cells = [
    `${prefix}\`${attack.name}\`: ${attack.what}`,
    (bytes / 1000).toFixed(0),
    String(requests),
    cpuMs.toFixed(0),
    requests === 0 ? "–" : ((cpuMs * 1000) / requests).toFixed(0),
    (cpuMs / (bytes / 1000)).toFixed(3),
    ratio.toFixed(1),
    [memory.restBytes, memory.peakBytes, memory.laterBytes].map(mebibytes).join(", "),
    turn.ms.toFixed(1),
    turn.iterationMs.toFixed(1),
    both(0.5),
    both(0.99),
    both(1),
    String(beside.failed),
    broken(one, alone, seconds).join(", "),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** The steps of the turns that were too long. */
function steps(figures: readonly Figures[]): string[] {
  const long = figures.filter((one) => broken(one, one.alone, 1).includes("turn"));
  if (long.length === 0) return [];
  return [
    "### Longest turns",
    "",
    ...long.map(({ attack, turn }) => `- \`${attack.name}\`: ${turn.ms.toFixed(1)} ms, ${turn.step}`),
    "",
  ];
}

const mebibytes = (bytes: number): string => (bytes / 1024 / 1024).toFixed(0);
