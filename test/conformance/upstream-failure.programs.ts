// An upstream that is killed under load fails requests at once, and is used again as soon as it is back.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { UpstreamProcess } from "../support/upstream-process.ts";

const cleanup = useCleanup();
const policies = [slidingPolicy({ limit: 10_000_000, windowMs: 60_000 })];

interface Load {
  /** Answers so far by status; "broken" is a connection that ended instead. */
  readonly counts: Map<number | "broken", number>;
  /** The longest wait for any answer. */
  longestMs: number;
  stop(): Promise<void>;
}

/** What waits for one of the gateway's timeouts takes longer than this; a machine that is busy does not. */
const atOnceMs = 5_000;
const timeoutsMs = 60_000;
const patientMs = 15_000;

/** Loops side by side, each asking again as soon as it is answered; every other one sends bodies. */
function load(port: number, loops: number): Load {
  let isStopped = false;
  const counts = new Map<number | "broken", number>();
  const figures: Load = {
    counts,
    longestMs: 0,
    async stop() {
      isStopped = true;
      await Promise.all(running);
    },
  };
  const loop = async (_: unknown, i: number): Promise<void> => {
    const post = { method: "POST", fields: "Content-Length: 5\r\n", body: "hello" };
    let client = new RawConnection(port);
    while (!isStopped) {
      const startMs = performance.now();
      const status = await client.ask(request("/v2/x", i % 2 === 0 ? {} : post), { deadlineMs: 2 * atOnceMs }).then(
        (answer) => answer.status,
        () => "broken" as const,
      );
      figures.longestMs = Math.max(figures.longestMs, performance.now() - startMs);
      counts.set(status, (counts.get(status) ?? 0) + 1);
      if (status === "broken") {
        client.destroy();
        client = new RawConnection(port);
      }
    }
    client.destroy();
  };
  const running = Array.from({ length: loops }, loop);
  return figures;
}

test("killed under load and restarted: 502 at once while it is away, and nothing but 200 as soon as it is back", async () => {
  const upstream = new UpstreamProcess();
  await upstream.start();
  cleanup(() => upstream.kill());
  const timeouts = { connectTimeoutMs: timeoutsMs, responseTimeoutMs: timeoutsMs };
  // How many requests a loop sends depends on the machine.
  const listen = { maxRequestsPerConnection: 1_000_000_000 };
  const overrides = { listen, policies, upstream: timeouts };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
  const loops = 20;
  const figures = load(gateway.traffic.port, loops);
  cleanup(() => figures.stop());
  const count = (status: number): number => figures.counts.get(status) ?? 0;

  for (let round = 1; round <= 3; round += 1) {
    const served = count(200);
    await eventually("requests are served", () => count(200) > served + 200, patientMs);
    await upstream.kill();
    const servedBefore = count(200);
    const failed = count(502);
    await eventually("requests fail", () => count(502) > failed + 200, patientMs);
    // Those whose answer had come, and no more.
    expect(count(200) - servedBefore).toBeLessThanOrEqual(loops);

    await upstream.start();
    const failedBefore = count(502);
    const again = count(200);
    await eventually("requests are served again", () => count(200) > again + 200, patientMs);
    // Those that were on their way to the dead one, and no more.
    expect(count(502) - failedBefore).toBeLessThanOrEqual(loops);
  }

  await figures.stop();
  expect([...figures.counts.keys()].filter((status) => status !== "broken").sort()).toEqual([200, 502]);
  // Only a response that was cut in the middle may break a connection: one for each loop and round at the most.
  expect(figures.counts.get("broken") ?? 0).toBeLessThanOrEqual(60);
  expect(figures.longestMs).toBeLessThan(atOnceMs);
  await eventually("no connection is left in use", async () => (await upstreamConnections(gateway)).active === 0);
});
