// How many requests go on a connection to the upstream that has carried one before, at constant rates. A request that cannot
// be repeated gets only one that was idle for less than a second, so the slowest rates matter most.
import { constantRate } from "./load.ts";
import type { Run } from "./runs.ts";
import { startContender } from "./runs.ts";

export interface ReuseResult {
  readonly contender: string;
  readonly method: "GET" | "POST";
  readonly perSecond: number;
  /** That the upstream answered. */
  readonly requests: number;
  readonly connections: number;
}

const rates = [10, 100, 10_000];
const seconds = 6;

export async function measureReuse(run: Run): Promise<ReuseResult[]> {
  const { present, upstream, folder, cores, say } = run;
  const results: ReuseResult[] = [];
  for (const contender of present) {
    const { port, running } = await startContender(run, contender, "open");
    try {
      for (const method of ["GET", "POST"] as const) {
        for (const perSecond of rates) {
          const before = await figuresOf(upstream.port);
          const load = { path: "/v2/200b", perSecond, seconds, bodyBytes: method === "POST" ? 64 : 0 };
          await constantRate(port, { ...load, arrival: "one by one" }, folder, cores.load);
          const after = await figuresOf(upstream.port);
          // The second reading came on a connection of its own.
          const requests = after.requests - before.requests - 1;
          const connections = after.connections - before.connections - 1;
          results.push({ contender: contender.name, method, perSecond, requests, connections });
          say(`${method} at ${perSecond}/s: ${contender.name} ${connections} connections for ${requests} requests`);
        }
      }
    } finally {
      await running.stop();
    }
    run.watch.look(`while ${contender.name} used connections again`);
  }
  return results;
}

/** What nginx has counted since its start. */
async function figuresOf(port: number): Promise<{ readonly connections: number; readonly requests: number }> {
  const response = await fetch(`http://127.0.0.1:${port}/status`, { headers: { Connection: "close" } });
  const [, accepted, , requests] = /^ (\d+) (\d+) (\d+) $/m.exec(await response.text()) ?? [];
  return { connections: Number(accepted), requests: Number(requests) };
}
