import fc from "fast-check";
import { expect, test } from "vitest";
import { BusiestClient, ratioOf } from "../../src/telemetry/telemetry.ts";

/** Sends the requests of one minute, evenly, and returns the ratio after it. */
function minute(busiest: BusiestClient, clients: readonly string[], startMs: number): number {
  for (const [i, client] of clients.entries()) busiest.count(client, startMs + (i * 59_000) / clients.length);
  return ratioOf([busiest.share(startMs + 60_000)]);
}

const mixed = (ofOne: number, ofOthers: number): string[] =>
  Array.from({ length: ofOne + ofOthers }, (_, i) =>
    (i * ofOne) % (ofOne + ofOthers) < ofOne ? "192.0.2.1" : `198.51.100.${i}`,
  );

test("the share of a client with more than half of the requests is exact from the second minute on", () => {
  const busiest = new BusiestClient();
  expect(minute(busiest, mixed(180, 20), 0)).toBe(0);
  expect(minute(busiest, mixed(180, 20), 60_000)).toBeCloseTo(0.9, 2);
  expect(minute(busiest, mixed(120, 80), 120_000)).toBeCloseTo(0.6, 2);
});

test("without such a client, with few requests, and after a minute without any, it is 0", () => {
  const busiest = new BusiestClient();
  minute(busiest, mixed(40, 160), 0);
  expect(minute(busiest, mixed(40, 160), 60_000)).toBe(0);
  minute(busiest, mixed(99, 0), 120_000);
  expect(minute(busiest, mixed(99, 0), 180_000)).toBe(0);
  minute(busiest, mixed(200, 0), 240_000);
  expect(minute(busiest, mixed(200, 0), 300_000)).toBe(1);
  expect(ratioOf([busiest.share(420_000)])).toBe(0);
  expect(ratioOf([busiest.share(900_000)])).toBe(0);
});

test("never says more than the largest share of the minute", () => {
  const clients = fc.array(fc.constantFrom("a", "b", "c"), { minLength: 100, maxLength: 300 });
  fc.assert(
    fc.property(clients, clients, (first, second) => {
      const busiest = new BusiestClient();
      minute(busiest, first, 0);
      const ratio = minute(busiest, second, 60_000);
      const largest = Math.max(...["a", "b", "c"].map((one) => second.filter((client) => client === one).length));
      expect(ratio).toBeLessThanOrEqual(largest / second.length);
    }),
  );
});
