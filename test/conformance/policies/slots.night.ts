// 100,000 exchanges that end in every way: each gives its slot back, and no more are under way than the policy admits.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { slots, startSlots } from "./slots.ts";

const cleanup = useCleanup();

const timeoutMs = 400_000;

test("100,000 exchanges that end in every way hold at most the slots there are, and leave none taken", {
  timeout: timeoutMs,
}, async () => {
  const { run, areFree, takeAll, upstream, gateway } = await startSlots(cleanup);
  const statuses = await run(100_000);
  await areFree();
  expect(upstream.most()).toBeLessThanOrEqual(slots);
  // They did end in every way.
  for (const status of [0, 101, 200, 400, 401, 413, 429, 500, 502, 504])
    expect(statuses.get(status), `${status}`).toBeGreaterThan(100);
  expect(gateway.output.out).not.toContain("internal error");
  // Every slot can be had again, and not one more.
  expect(await takeAll()).toBe(429);
  gateway.signal("SIGTERM");
  expect((await gateway.exited).code).toBe(0);
});
