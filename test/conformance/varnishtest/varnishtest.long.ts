// varnishtest scripts, with a scripted client and a scripted server on either side of a gateway of their own. A script
// is told where both are: ${gateway_port} listens already, and on ${upstream_port} its server has to.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { startProcessGroup } from "../../support/process-group.ts";
import { freeAddress } from "../../support/unavailable.ts";

const isInstalled = spawnSync("varnishtest", ["-h"]).error === undefined;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !isInstalled && HEADGATE_REQUIRE !== "all";
const needs = isInstalled ? "" : " (needs varnishtest: apt-get install varnish)";
const folder = import.meta.dirname;
const scripts = readdirSync(folder).filter((name) => name.endsWith(".vtc"));

test("there are scripts", () => expect(scripts.length).toBeGreaterThan(20));

test.skipIf(skip).each(scripts)(`%s${needs}`, async (script) => {
  const upstreamUrl = await freeAddress();
  const gateway = await startTestGateway({
    upstreamUrl,
    overrides: {
      policies: [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })],
      upstream: { maxConnections: 1 },
      drain: { timeoutMs: 0 },
    },
  });
  try {
    const { exitCode, output } = await varnishtest(script, gateway.traffic.port, new URL(upstreamUrl).port);
    expect(exitCode, output).toBe(0);
  } finally {
    await gateway.close();
  }
});

async function varnishtest(script: string, gatewayPort: number, upstreamPort: string) {
  const macros = ["-D", `gateway_port=${gatewayPort}`, "-D", `upstream_port=${upstreamPort}`];
  const { child, end } = startProcessGroup("varnishtest", ["-t", "10", ...macros, `${folder}/${script}`]);
  onTestFinished(end);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const [exitCode] = await once(child, "close");
  return { exitCode, output };
}
