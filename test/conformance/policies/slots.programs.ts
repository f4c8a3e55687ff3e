// A short run of what slots.night.ts does at length.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { slots, startSlots } from "./slots.ts";

const cleanup = useCleanup();

test("exchanges that end in every way hold at most the slots there are, and leave none taken", async () => {
  const { run, areFree, takeAll, upstream } = await startSlots(cleanup);
  await run(1_000);
  await areFree();
  expect(upstream.most()).toBeLessThanOrEqual(slots);
  expect(await takeAll()).toBe(429);
});
