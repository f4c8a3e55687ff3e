// Exchanges that end in every way: each gives its slot back, and no more are under way than the policy admits.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { isNight } from "../../support/runs.ts";
import { slots, startSlots } from "./slots.ts";

const cleanup = useCleanup();

const count = isNight ? 100_000 : 1_000;

test(`${count} exchanges that end in every way hold at most the slots there are, and leave none taken`, async () => {
  const { run, areFree, takeAll, upstream, gateway } = await startSlots(cleanup);
  const statuses = await run(count);
  await areFree();
  expect(upstream.most()).toBeLessThanOrEqual(slots);
  // They did end in every way; a thousand may leave one out.
  for (const status of isNight ? [0, 101, 200, 400, 401, 413, 429, 500, 502, 504] : [])
    expect(statuses.get(status), `${status}`).toBeGreaterThan(100);
  expect(gateway.output.out).not.toContain("internal error");
  // Every slot can be had again, and not one more.
  expect(await takeAll()).toBe(429);
  // The drain waits for what holds them.
  if (!isNight) return;
  gateway.signal("SIGTERM");
  expect((await gateway.exited).code).toBe(0);
});
