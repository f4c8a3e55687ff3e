// Two gateways in front of one upstream, with one store, and a Prometheus that scrapes both, to run the dashboard and the
// rules on. The gateways differ, so that a query that works for only one kind of gateway fails.
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Authority } from "../support/certificates.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { listen } from "../support/loopback-server.ts";
import { startRedis } from "../support/redis-servers.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type MoodyUpstream, playMixedLoad, startMoodyUpstream, token } from "./mixed-load.ts";
import { type Prometheus, startPrometheus } from "./prometheus.ts";

export interface Scene {
  readonly prometheus: Prometheus;
  readonly upstream: MoodyUpstream;
  play(durationMs: number): Promise<void>;
  /** Sends one request. */
  knock(): Promise<void>;
}

export async function openScene(cleanup: Cleanup, scrapeSeconds: number, hasOtherJobs = false): Promise<Scene> {
  const upstream = await startMoodyUpstream(cleanup);
  const authority = new Authority(cleanup);
  const { certFile, keyFile } = authority.issue({ validDays: [-1, 60] });
  // Clients expire while the load lasts.
  const window = ["policies.0.limit=100", "policies.0.window=15s"];
  const limits = [...window, "counters.memory=1MiB", "clientAddress.trustedProxies=[127.0.0.1]"];
  const folder = scratchFolder(cleanup);
  const snapshot = (name: string) => [`counters.snapshot.path=${join(folder, name)}`, "counters.snapshot.every=2s"];
  const quiet = [
    "log.access=false",
    "maxBodyBytes=1KiB",
    "upstream.connectTimeout=500ms",
    "upstream.healthCheck.interval=1s",
  ];
  const store = cleanup(await startRedis());
  const shared = ["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${store.port}`];
  const common = [...limits, ...quiet, ...shared, "upstream.maxConnections=8"];
  // Nothing listens at the second address. Clients must not notice.
  const addresses = [new URL(upstream.url).host, "127.0.0.2:1"].map((address) => `"${address}"`);
  const withTls = [
    ...common,
    ...snapshot("a"),
    `upstream.addresses=[${addresses}]`,
    `listen.tls.cert=${certFile}`,
    `listen.tls.key=${keyFile}`,
    "auth.mode=tokens",
    `auth.tokensFile=${tokensFile(cleanup)}`,
  ];
  const a = await startGatewayProcess(cleanup, upstream.url, withTls);
  const b = await startGatewayProcess(cleanup, upstream.url, [
    ...common,
    ...snapshot("b"),
    "upstream.healthCheck.path=/health",
  ]);
  const targets = [
    { instance: "gateway-a:9464", adminPort: a.adminPort },
    { instance: "gateway-b:9464", adminPort: b.adminPort },
  ];
  const programPort = hasOtherJobs ? await startProgram(cleanup) : null;
  const prometheus = await startPrometheus(cleanup, targets, scrapeSeconds, programPort);
  const gateways = [
    { port: a.port, ca: authority.cert },
    { port: b.port, ca: null },
  ];
  return {
    prometheus,
    upstream,
    async play(durationMs) {
      const ended: string[] = [];
      for (const { exited, output } of [a, b]) {
        void exited.then(({ code, signal }) => ended.push(`${code ?? signal}: ${output.err}`));
      }
      await playMixedLoad(cleanup, gateways, upstream, store, durationMs);
      if (ended.length > 0) throw new Error(`a gateway ended during the load with ${ended.join(" and ")}`);
    },
    async knock() {
      const headers = { Authorization: `Bearer ${token}`, "X-Forwarded-For": "192.0.2.91" };
      await (await fetch(`http://127.0.0.1:${b.port}/v2/me`, { headers })).arrayBuffer();
    },
  };
}

/** A figure that no gateway has. */
export const figureOfProgram = 987_654_321_987;

/** Another program with the usual metrics of processes. Returns its port. */
async function startProgram(cleanup: Cleanup): Promise<number> {
  const names = [
    ...["process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds", "process_open_fds"],
    ...["p50", "p99", "max"].map((figure) => `nodejs_eventloop_lag_${figure}_seconds`),
    ...["nodejs_heap_size_used_bytes", "nodejs_external_memory_bytes", 'nodejs_gc_duration_seconds_sum{kind="major"}'],
  ];
  const text = [...names.map((name) => `${name} ${figureOfProgram}`), "process_max_fds 1", ""].join("\n");
  const server = createServer((_, res) =>
    res.writeHead(200, { "Content-Type": "text/plain; version=0.0.4" }).end(text),
  );
  const port = await listen(server);
  cleanup(() => void server.close().closeAllConnections());
  return port;
}

function tokensFile(cleanup: Cleanup): string {
  const folder = mkdtempSync(join(tmpdir(), "headgate-tokens-"));
  cleanup(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "tokens.txt");
  writeFileSync(file, `${createHash("sha256").update(token).digest("hex")}\n`);
  return file;
}
