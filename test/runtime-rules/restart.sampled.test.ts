// Rules outlive a restart with the snapshot of the counters, for as long as they hold.
import { copyFileSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { holdTimers } from "../support/timers.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const writer = { name: "ops", address: null };
const anyway = { expectedRevision: null, force: true };
const own = { id: "own", client: "127.0.0.1", action: "block", for: "1h" };
let path = "";
beforeEach(() => {
  path = join(scratchFolder(cleanup), "counters");
});

async function start({ workers = 1, clock = new FakeClock(), at = path } = {}) {
  const upstream = cleanup(await startUpstream());
  const counters = { memoryBytes: 2 ** 20, snapshot: { path: at, everyMs: 3_600_000 }, redis: null };
  const overrides = { workers, counters, drain: { timeoutMs: 0 } };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides, clock });
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (!isClosed) await gateway.close();
    isClosed = true;
  };
  cleanup(close);
  const ask = async (): Promise<number> => {
    const headers = { authorization: "Bearer a", connection: "close" };
    const response = await fetch(`${gateway.url}/v1/x`, { headers });
    await response.arrayBuffer();
    return response.status;
  };
  return { gateway, close, ask, clock };
}

test.each(threadCounts)(
  "a rule holds after a restart from the first request on, until its end: %i threads",
  async (workers) => {
    const first = await start({ workers });
    const put = await first.gateway.rules.put({ ...own, note: "abuse" }, writer, anyway);
    expect(put).toMatchObject({ ok: true });
    expect(first.gateway.rules.survivesRestart("own")).toBe(true);
    await first.gateway.rules.put({ ...own, id: "short", for: "10s" }, writer, anyway);
    const rule = first.gateway.rules.get("own");
    await first.close();

    const clock = new FakeClock();
    clock.advance(10_000);
    const second = await start({ workers, clock });
    expect(second.gateway.rules.list()).toEqual([rule]);
    expect(await second.ask()).toBe(403);
    expect(await metric(second.gateway, 'headgate_rules{action="block"}')).toBe(1);
    await second.gateway.rules.remove("own", writer, anyway);
    expect(await second.ask()).toBe(200);
    await second.close();

    const third = await start({ workers });
    expect(third.gateway.rules.list()).toEqual([]);
    expect(await metric(third.gateway, 'headgate_rules{action="block"}')).toBe(0);
  },
);

test("a rule is in a snapshot soon after it was set, and gone from one soon after it was removed", async () => {
  holdTimers(cleanup);
  const first = await start();
  expect(existsSync(path)).toBe(false);
  await first.gateway.rules.put(own, writer, anyway);
  vi.advanceTimersByTime(1_000);
  await expect.poll(() => existsSync(path)).toBe(true);
  // As a process that is killed leaves it.
  copyFileSync(path, `${path}.copy`);
  const second = await start({ at: `${path}.copy` });
  expect(await second.ask()).toBe(403);
  await second.close();

  const { ino } = statSync(path);
  await first.gateway.rules.remove("own", writer, anyway);
  vi.advanceTimersByTime(1_000);
  await expect.poll(() => statSync(path).ino).not.toBe(ino);
  copyFileSync(path, `${path}.copy`);
  const third = await start({ at: `${path}.copy` });
  expect(third.gateway.rules.list()).toEqual([]);
});
