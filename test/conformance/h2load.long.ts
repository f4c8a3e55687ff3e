// h2load, an HTTP/2 client that shares no code with Node's user-visible API: many streams over many connections, none
// lost and none answered wrong, and nothing left behind.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { useTls } from "../support/tls-listener.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const withTls = useTls();
const installed = spawnSync("h2load", ["--version"]).status === 0;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !installed && HEADGATE_REQUIRE !== "all";

function h2load(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const { child, end } = startProcessGroup("nice", ["-n", "10", "h2load", ...args]);
    cleanup(end);
    let output = "";
    child.stdout.on("data", (text) => {
      output += String(text);
    });
    child.stderr.on("data", (text) => {
      output += String(text);
    });
    child.on("error", reject);
    child.on("close", () => resolve(output));
  });
}

test.skipIf(skip)(
  "20,000 requests, 50 streams on each of 10 connections: all answered, 15,000 of them 200, the rest 429 (needs h2load: apt-get install nghttp2-client)",
  async () => {
    const upstream = cleanup(await startUpstream());
    const { overrides } = withTls({
      policies: [slidingPolicy({ limit: 15_000, windowMs: 600_000 })],
      listen: { maxRequestsPerConnection: 100_000 },
      // Half of them are for one client.
      upstream: { maxConnections: 1000 },
      log: { access: false },
    });
    const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
    const target = `https://127.0.0.1:${gateway.traffic.port}/v2/x`;
    const output = await h2load(["-n", "20000", "-c", "10", "-m", "50", "-H", "Authorization: Bearer t", target]);
    expect(output).toMatch(
      /requests: 20000 total, 20000 started, 20000 done, 15000 succeeded, 5000 failed, 0 errored, 0 timeout/,
    );
    expect(output).toMatch(/status codes: 15000 2xx, 0 3xx, 5000 4xx, 0 5xx/);
    expect(upstream.hits()).toBe(15_000);
    await eventually("nothing is under way", async () => (await upstreamConnections(gateway)).active === 0);
  },
);
