// What busy clients cost the other ones, beside what they cost them where nginx stands in front: the same loads from one
// address, the same upstream and the same other clients, one gateway after the other, in interleaved rounds.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accepts, freePort, start } from "../processes.ts";
import { nginxFrame } from "../upstream.ts";
import type { Attack } from "./attack.ts";
import { unlimited } from "./attacks/requests.ts";
import { type GatewayPlace, startGateway } from "./gateway-process.ts";
import { quantile, together } from "./goals.ts";
import { endOthers, othersOrder, readOthers } from "./others.ts";
import type { OthersReply } from "./others-process.ts";
import { machineText } from "./report.ts";
import { type Bench, run, type Target } from "./run.ts";

const names = new Set(["connection-names", "admin-metrics-flood", "tunnels-streaming", "connections-fresh"]);
const rounds = 3;
const warmSeconds = 1;
/** × the same with nginx in front. */
const goal = 2;

interface Started extends Target {
  stop(): Promise<void>;
}

interface Outcome {
  readonly headgate: OthersReply[];
  readonly nginx: OthersReply[];
}

/** Returns Markdown. */
export async function besideNginx(
  bench: Bench,
  place: GatewayPlace,
  attacks: readonly Attack[],
  command: string,
): Promise<string> {
  const rows: string[] = [];
  for (const attack of attacks.filter(({ name }) => names.has(name))) {
    const outcome: Outcome = { headgate: [], nginx: [] };
    for (let round = 0; round < rounds; round += 1) {
      outcome.headgate.push(await measureOthers(bench, attack, await startHeadgate(place, attack)));
      outcome.nginx.push(await measureOthers(bench, attack, await startNginx(place, `${attack.name}-${round}`)));
    }
    rows.push(row(attack, outcome));
  }
  return [`\`${command}\`, ${rounds} rounds of ${bench.seconds} s, ${machineText()}.\n`, head, ...rows, ""].join("\n");
}

async function measureOthers(bench: Bench, attack: Attack, target: Started): Promise<OthersReply> {
  try {
    // The gateway loads what answers there with the first connection, which takes 150 ms once.
    await (await fetch(`http://127.0.0.1:${target.ports.admin}/metrics`)).arrayBuffer();
    await bench.others.ask(othersOrder(target.ports, attack, { isWarmUp: true }));
    await sleep(warmSeconds * 1000);
    await bench.others.ask(othersOrder(target.ports, attack));
    await sleep(warmSeconds * 1000);
    await bench.others.ask(readOthers);
    await run(bench, target, attack);
    return await bench.others.ask<OthersReply>(endOthers);
  } finally {
    await target.stop();
  }
}

async function startHeadgate(place: GatewayPlace, attack: Attack): Promise<Started> {
  const { ports, child } = await startGateway(place, { ...attack, keys: { ...unlimited, ...attack.keys } });
  return { ports, child, stop: () => child.stop() };
}

/** With a page of figures in place of the metrics, and WebSockets. */
async function startNginx({ folder, upstreamPort, core }: GatewayPlace, name: string): Promise<Started> {
  const [traffic, admin] = [await freePort(), await freePort()];
  const own = join(folder, `nginx-${name}`);
  mkdirSync(own);
  const config = join(own, "nginx.conf");
  writeFileSync(
    config,
    `${nginxFrame(own)}
http {
  access_log off;
  limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1000000r/s;
  upstream backend { server 127.0.0.1:${upstreamPort}; keepalive 512; }
  map $http_upgrade $forwarded_connection { default upgrade; "" ""; }
  server {
    listen 127.0.0.1:${traffic} backlog=4096;
    location / {
      limit_req zone=per_ip burst=100000 nodelay;
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $forwarded_connection;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
      proxy_request_buffering off;
    }
  }
  server {
    listen 127.0.0.1:${admin};
    location / { stub_status; }
  }
}
`,
  );
  const { pid, stop } = await start(["nginx", "-c", config, "-e", "stderr"], { core, port: traffic });
  while (!(await accepts(admin))) await sleep(20);
  return { ports: { traffic, admin, checks: 0, grpc: 0 }, child: { pid }, stop };
}

const head = `| one address sends | p50 ms: Headgate, nginx | p99 ms: Headgate, nginx | × | goal | lost: Headgate, nginx |
|---|---|---|---|---|---|`;

/** The p99 of each round, the median of the rounds. */
function row({ name, what }: Attack, { headgate, nginx }: Outcome): string {
  const both = (share: number): readonly [number, number] => [median(headgate, share), median(nginx, share)];
  const [own, theirs] = both(0.99);
  const cells = [
    `\`${name}\`: ${what}`,
    both(0.5)
      .map((ms) => ms.toFixed(1))
      .join(", "),
    `${own.toFixed(1)}, ${theirs.toFixed(1)}`,
    (own / theirs).toFixed(1),
    `≤ ${goal}`,
    `${together(headgate).failed}, ${together(nginx).failed}`,
  ];
  return `| ${cells.join(" | ")} |`;
}

function median(replies: readonly OthersReply[], share: number): number {
  const sorted = replies.map((reply) => quantile(reply, share)).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
