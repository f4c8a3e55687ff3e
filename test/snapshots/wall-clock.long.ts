// A running gateway whose wall clock is stepped by an hour, again and again, by libfaketime. Its decisions are those of
// the monotonic clock; quotas of the calendar are refilled by no step.
import { globSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { fifth } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { startWithSnapshot } from "./stage.ts";

const [library] = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1");
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = library === undefined && HEADGATE_REQUIRE !== "all";

const cleanup = useCleanup();

const steps = fifth(100);
/** Of requests to the path with this limit, which is used up by half of the steps. */
const hourLimit = steps / 2;
const policies = [
  { name: "hour", limit: hourLimit, window: "1h", match: { paths: ["/v1/hour"] } },
  { name: "short", limit: 1, window: "250ms", match: { paths: ["/v1/short"] } },
  { name: "month", limit: 5, per: "month", match: { paths: ["/v1/month"] } },
];
/** Of `short`: how long after an admission it is certain that another request is refused. */
const certainMs = 200;
const windowMs = 250;

describe.skipIf(skip)("a wall clock that steps (needs libfaketime: apt-get install libfaketime)", () => {
  test(`by an hour, ${steps} times: no decision differs`, async () => {
    const folder = scratchFolder(cleanup);
    const offset = join(folder, "offset");
    // The middle of a month, so that no step reaches another one.
    const middle = Math.round((Date.UTC(2026, 10, 15, 12) - Date.now()) / 1000);
    const step = (hours: number): void => {
      const seconds = middle + hours * 3600;
      writeFileSync(offset, `${seconds < 0 ? "" : "+"}${seconds}s\n`);
    };
    step(0);
    const upstream = cleanup(await startUpstream());
    const env = {
      LD_PRELOAD: library ?? "libfaketimeMT.so.1",
      FAKETIME_TIMESTAMP_FILE: offset,
      FAKETIME_NO_CACHE: "1",
      // A step of a machine's clock does not move this one either.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    };
    const config = [`policies=${JSON.stringify(policies)}`];
    const gateway = await startWithSnapshot(cleanup, upstream.url, join(folder, "counters"), config, env);

    let hours = 0;
    const walls: number[] = [];
    for (let i = 0; i < steps; i += 1) {
      const begunMs = performance.now();
      const first = await gateway.ask("/v1/short");
      expect([i, first.status]).toEqual([i, 200]);
      hours += i % 3 === 0 ? -1 : i % 3 === 1 ? 1 : hours > 0 ? -1 : 1;
      step(hours);
      const again = await gateway.ask("/v1/short");
      if (performance.now() - begunMs < certainMs) expect([i, again.status]).toEqual([i, 429]);
      const hour = await gateway.ask("/v1/hour");
      expect([i, hour.status, hour.remaining]).toEqual([i, i < hourLimit ? 200 : 429, Math.max(0, hourLimit - 1 - i)]);
      expect([i, (await gateway.ask("/v1/month")).status]).toEqual([i, i < 5 ? 200 : 429]);
      walls.push(hour.reset);
      await setTimeout(windowMs + 20);
    }
    // The clock of the gateway has stepped indeed: Reset is rendered by it.
    expect(Math.max(...walls.slice(0, hourLimit)) - Math.min(...walls.slice(0, hourLimit))).toBeGreaterThan(3_500);
    gateway.signal("SIGTERM");
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });
});
