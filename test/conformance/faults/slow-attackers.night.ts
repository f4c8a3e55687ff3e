// 2,000 slow clients at once: each is gone within its timeout and two seconds, and a client that behaves is served all
// the while.
import { spawnSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import type { GatewayProcess } from "../../support/gateway-process.ts";
import { type Attack, attack, attackers, startGoodClient, startTarget } from "./slow-attackers.ts";

const cleanup = useCleanup();
const installed = spawnSync("slowhttptest", ["-h"]).error === undefined;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !installed && HEADGATE_REQUIRE !== "all";

const timeoutMs = 4_000;
/** The bound that is promised, and as much again for a machine that is busy with other things. */
const withinMs = timeoutMs + 2_000 + 4_000;
// An answer that the kernel has taken in whole is over; what holds its slow reader then is the wait for a next request.
const settings = [
  ...["head", "body", "keepAlive"].map((what) => `timeouts.${what}=${timeoutMs}ms`),
  "upstream.responseTimeout=60s",
];

interface Course {
  readonly peak: number;
  /** From the last connection that came until there were none but the good client's. */
  readonly goneAfterMs: number;
}

async function watch(gateway: GatewayProcess): Promise<Course> {
  let peak = 0;
  let peakAtMs = performance.now();
  const endMs = performance.now() + 40_000;
  while (performance.now() < endMs) {
    const open = (await gateway.figures()).get("headgate_client_connections") ?? Number.NaN;
    const nowMs = performance.now();
    if (open > peak) [peak, peakAtMs] = [open, nowMs];
    else if (peak > attackers / 2 && open <= 1) return { peak, goneAfterMs: nowMs - peakAtMs };
    await sleep(50);
  }
  return { peak, goneAfterMs: Number.POSITIVE_INFINITY };
}

test.skipIf(skip).each(["head", "body", "read"] as const satisfies readonly Attack[])(
  "2,000 clients with a slow %s are gone in time, and a good one is served (needs slowhttptest)",
  async (kind) => {
    const gateway = await startTarget(cleanup, settings);
    const good = startGoodClient(gateway.port);
    cleanup(() => good.stop());
    const watched = watch(gateway);
    const said = attack(cleanup, kind, gateway.port, 30);
    const { peak, goneAfterMs } = await watched;
    expect(peak).toBeGreaterThan(attackers / 2);
    expect(goneAfterMs).toBeLessThan(withinMs);
    // A reader that slow would learn of its end when it has read all.
    if (kind !== "read") expect(await said).toContain("No open connections left");
    await good.stop();
    expect(good.failures).toEqual([]);
    expect(good.tookMs.length).toBeGreaterThan(100);
    expect(gateway.output.out).not.toContain("internal error");
    expect(gateway.output.err).toBe("");
  },
);
