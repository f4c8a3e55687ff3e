// What leasing units ahead of need saves a gateway: the CPU and the latency of requests that it proxies at a constant rate,
// without a store, with one as it is, and where each request asks.
import { setTimeout as sleep } from "node:timers/promises";
import { median, quantile } from "../figures.ts";
import { constantRate } from "../load.ts";
import { cpuTimeUs, type Running } from "../processes.ts";
import { alone, askingAlone, shared } from "./contenders.ts";
import type { LeasesStage } from "./leases.ts";

/** Of one gateway, with so many requests a second of one client. */
export async function measureProxied(stage: LeasesStage, storePort: number, rate: number): Promise<void> {
  const { cores, folder, upstream, seconds } = stage;
  const load = { path: "/v2/200b", perSecond: rate, arrival: "one by one" } as const;
  const limit = { limit: 1_000_000, windowMs: 60_000, key: "address" } as const;
  const place = { ...limit, folder, upstreamPort: upstream.port, redisPort: storePort, core: cores.contender };
  const started: { name: string; port: number; running: Running }[] = [];
  const measured: { name: string; figures: readonly number[] }[] = [];
  try {
    for (const contender of [alone, shared, askingAlone]) {
      started.push({ name: contender.name, ...(await contender.start(place)) });
      await sleep(1000);
      await constantRate(started.at(-1)?.port ?? 0, { ...load, seconds: 4 }, folder, cores.others);
    }
    let localUs = Number.NaN;
    for (let round = 0; round < stage.rounds; round += 1) {
      for (const { name, port, running } of started) {
        const [beforeUs, callsBefore] = [cpuTimeUs(running.pid), stage.calls()];
        const sorted = await constantRate(port, { ...load, seconds: seconds + 1 }, folder, cores.others);
        const requests = rate * (seconds + 1);
        const cpuUs = (cpuTimeUs(running.pid) - beforeUs) / requests;
        const calls = (stage.calls() - callsBefore) / requests;
        if (name === alone.name) localUs = cpuUs;
        measured.push({
          name,
          figures: [cpuUs, cpuUs / localUs, calls, quantile(sorted, 0.5), quantile(sorted, 0.99)],
        });
        stage.say(
          `proxied round ${round + 1}: ${name} ${cpuUs.toFixed(1)} µs CPU, ${calls.toFixed(2)} calls a request`,
        );
      }
    }
  } finally {
    for (const { running } of started) await running.stop();
  }
  const digits = [1, 2, 3, 0, 0];
  const rows = started.map(({ name }) => {
    const own = measured.filter((one) => one.name === name);
    return [name, ...digits.map((each, i) => median(own.map(({ figures }) => figures[i] ?? Number.NaN)).toFixed(each))];
  });
  stage.table(
    `${rate} proxied requests a second of one client`,
    ["contender", "CPU µs/request", "× without", "calls/request", "p50 µs", "p99 µs"],
    rows,
  );
}
