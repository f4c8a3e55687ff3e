// Gateways that start where another one has ended: what it counted still counts, and nothing that stands in the place of
// its snapshot keeps them from serving.
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { Settings } from "../../src/core/settings.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scratchFolder } from "../support/scratch.ts";
import { holdIntervals } from "../support/timers.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
let folder = "";
let path = "";
beforeEach(() => {
  folder = scratchFolder(cleanup);
  path = join(folder, "counters");
});

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const perIp: Policy = slidingPolicy({ limit: 5, windowMs: hourMs });
const perMonth: Policy = {
  ...perIp,
  name: "monthly",
  limit: 3,
  key: [{ kind: "token" }],
  rate: { kind: "calendar", per: "month", timezone: "UTC" },
};

interface Start {
  readonly policies?: readonly Policy[];
  readonly clock?: FakeClock;
  readonly memoryBytes?: number;
}

/** Of a clock whose monotonic time begins anew with each process, as the system's does. */
function processClock(wallMs: number, monotonicMs: number): FakeClock {
  const clock = new FakeClock();
  clock.nowMs = monotonicMs;
  clock.wallOffsetMs = wallMs - monotonicMs;
  return clock;
}

async function start({ policies = [perIp], clock, memoryBytes = 2 ** 20 }: Start = {}) {
  const upstream = cleanup(await startUpstream());
  const counters: Settings["counters"] = { memoryBytes, snapshot: { path, everyMs: hourMs }, redis: null };
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { policies, counters, drain: { timeoutMs: 0 }, fields: ["standard"] },
    ...(clock === undefined ? {} : { clock }),
  });
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (!isClosed) await gateway.close();
    isClosed = true;
  };
  cleanup(close);
  const ask = async (token = "a") => {
    // A kept connection would be idle for too long when the clock jumps, and could be closed before its next request is read.
    const headers = { authorization: `Bearer ${token}`, connection: "close" };
    const response = await fetch(`${gateway.url}/v1/x`, { headers });
    await response.arrayBuffer();
    const field = (name: string): number => Number(response.headers.get(name));
    return { status: response.status, reset: field("RateLimit-Reset"), remaining: field("RateLimit-Remaining") };
  };
  const askTimes = async (times: number, token?: string) => {
    let last = await ask(token);
    for (let i = 1; i < times; i += 1) last = await ask(token);
    return last;
  };
  const lines = (message: string) => gateway.logLines.filter(({ msg }) => msg === message);
  return { gateway, close, ask, askTimes, lines };
}

const wallMs = Date.UTC(2026, 10, 15, 12);

test("what was spent before a restart is spent after it, until the same Reset", async () => {
  const before = await start({ clock: processClock(wallMs, 1_000_000) });
  const spent = await before.askTimes(5);
  expect(spent).toMatchObject({ status: 200, remaining: 0 });
  await before.close();
  expect(readdirSync(folder)).toEqual(["counters"]);

  const clock = processClock(wallMs + 60_000, 77);
  const after = await start({ clock });
  expect(after.lines("counters restored")).toMatchObject([{ keys: 1, withoutRoom: 0, expired: 0, ageSeconds: 59.999 }]);
  const refused = await after.ask();
  expect(refused.status).toBe(429);
  expect(Math.abs(refused.reset - spent.reset)).toBeLessThanOrEqual(1);
  clock.advance(hourMs - 60_000 - 1_000);
  expect((await after.ask()).status).toBe(429);
  clock.advance(1_010);
  expect((await after.ask()).status).toBe(200);
});

test("a month's quota by token goes on until the end of the month, in another list and a larger table", async () => {
  const before = await start({ policies: [perMonth], clock: processClock(wallMs, 5_000) });
  expect(await before.askTimes(3)).toMatchObject({ status: 200, remaining: 0 });
  await before.close();
  const nextMonth = Date.UTC(2026, 11, 1);

  const policies = [{ ...perIp, limit: 1_000 }, perMonth];
  const later = await start({ policies, clock: processClock(nextMonth - 10_000, 1), memoryBytes: 2 ** 22 });
  expect(await later.ask()).toMatchObject({ status: 429, reset: nextMonth / 1000 });
  expect((await later.ask("b")).status).toBe(200);
  await later.close();

  const over = await start({ policies, clock: processClock(nextMonth, 1) });
  expect(await over.ask()).toMatchObject({ status: 200, remaining: 2 });
});

test("a month's quota is not refilled by a snapshot that was written while the clock was in the past", async () => {
  const before = await start({ policies: [perMonth], clock: processClock(wallMs, 5_000) });
  await before.askTimes(3);
  await before.close();
  const past = processClock(wallMs - 60 * dayMs, 9_000);
  const between = await start({ policies: [perMonth], clock: past });
  expect((await between.ask()).status).toBe(429);
  past.advance(hourMs);
  await between.close();
  const after = await start({ policies: [perMonth], clock: processClock(wallMs + 2 * hourMs, 7) });
  expect(await after.ask()).toMatchObject({ status: 429, reset: Date.UTC(2026, 11, 1) / 1000 });
});

test("a month's quota is not refilled by a start while the clock is ahead, if it is right before the first request", async () => {
  const before = await start({ policies: [perMonth], clock: processClock(wallMs, 5_000) });
  await before.askTimes(3);
  await before.close();
  const clock = processClock(wallMs + 366 * dayMs, 9_000);
  const after = await start({ policies: [perMonth], clock });
  clock.stepWall(-366 * dayMs);
  expect(await after.ask()).toMatchObject({ status: 429, reset: Date.UTC(2026, 11, 1) / 1000 });
});

test("a refused file has one line with the reason, and the gateway counts", async () => {
  writeFileSync(path, "not a snapshot");
  const after = await start();
  expect(after.lines("snapshot of the counters refused, they start empty")).toMatchObject([
    { level: "warn", file: path, reason: "is not one of this program" },
  ]);
  expect(readdirSync(folder)).toEqual(["counters.refused"]);
  await after.askTimes(5);
  expect((await after.ask()).status).toBe(429);
});

test("without a file there is a line, too, and a failed start leaves the file of the process that runs", async () => {
  const first = await start();
  expect(first.lines("no snapshot of the counters, they start empty")).toHaveLength(1);
  await first.ask();
  const upstream = cleanup(await startUpstream());
  const counters = { memoryBytes: 2 ** 20, snapshot: { path, everyMs: hourMs }, redis: null };
  const listen = { port: first.gateway.traffic.port };
  await expect(startTestGateway({ upstreamUrl: upstream.url, overrides: { counters, listen } })).rejects.toThrow();
  expect(readdirSync(folder)).toEqual([]);
});

/** Starts a gateway that writes a snapshot when the test says so. */
async function startHeld() {
  holdIntervals(cleanup);
  const clock = processClock(wallMs, 5_000);
  const started = await start({ clock });
  const figure = (name: string) => metric(started.gateway, `headgate_snapshot_${name}`);
  /** Resolves when what this snapshot came to is counted, which is the last that is done for it. */
  const snapshot = async (): Promise<void> => {
    const endings = async () => [await figure("timestamp_seconds"), await figure("failures_total")].join();
    const before = await endings();
    clock.advance(hourMs);
    vi.advanceTimersByTime(hourMs);
    await eventually("a snapshot has ended", async () => (await endings()) !== before);
  };
  return { ...started, figure, snapshot };
}

test("what cannot be written costs no request, and is logged when it begins and when it ends", async () => {
  mkdirSync(path);
  const { ask, lines, figure, snapshot } = await startHeld();
  await snapshot();
  await snapshot();
  expect(await figure("failures_total")).toBe(2);
  expect((await ask()).status).toBe(200);
  expect(lines("snapshot of the counters not written")).toMatchObject([{ level: "error", file: path, code: "EISDIR" }]);
  rmdirSync(path);
  await snapshot();
  expect(existsSync(path)).toBe(true);
  expect(lines("snapshot of the counters written again")).toHaveLength(1);
  expect(lines("snapshot of the counters not written")).toHaveLength(1);
  expect(await figure("bytes")).toBeGreaterThan(0);
});

test("the last one of a drain is logged if it fails, also after others that failed", async () => {
  mkdirSync(path);
  const { close, lines, snapshot } = await startHeld();
  await snapshot();
  await snapshot();
  expect(lines("snapshot of the counters not written")).toHaveLength(1);
  await close();
  expect(lines("snapshot of the counters not written")).toHaveLength(2);
});

test("a file that another process has replaced has one line", async () => {
  const { lines, snapshot } = await startHeld();
  const replaced = () => lines("snapshot of the counters replaced by another process");
  const replace = async (): Promise<void> => {
    const other = join(folder, "other");
    writeFileSync(other, "of another process");
    renameSync(other, path);
    await snapshot();
  };
  await snapshot();
  await snapshot();
  expect(replaced()).toEqual([]);
  await replace();
  expect(replaced()).toMatchObject([{ level: "warn", file: path }]);
  await replace();
  await replace();
  expect(replaced()).toHaveLength(1);
});
