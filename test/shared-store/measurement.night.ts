// The measurement against gateways without a store: one is exact, and of two the excess is seen. Takes about 6 s.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { monotonicMs } from "./client-line.ts";
import { limits, startFleet, windowMs } from "./fleet.ts";
import { startRecordingUpstream } from "./recording-upstream.ts";
import { answersOf, before, Client, mostAtUpstream, outcomeOf } from "./traffic.ts";

const cleanup = useCleanup();

test("one gateway admits exactly the limit, two without a store twice as many", async () => {
  const upstream = await startRecordingUpstream(cleanup);
  const { ports } = await startFleet(cleanup, upstream.url, 2, []);
  const first = () => ports().slice(0, 1);
  const small = new Client(cleanup, first, "127.0.0.2", "/v1/small");
  const large = new Client(cleanup, first, "127.0.0.3", "/v1/large");
  const slots = new Client(cleanup, first, "127.0.0.4", "/v1/slots", "?hold=20");
  const edge = new Client(cleanup, first, "127.0.0.5", "/v1/small");
  const apart = new Client(cleanup, ports, "127.0.0.6", "/v1/small");
  const endMs = monotonicMs() + 2.3 * windowMs;
  const admittedNow = ({ asked }: Client): number => asked.filter(({ status }) => status === 200).length;
  /** On a slow machine it takes longer until the third window is used up. In none of them is one more admitted. */
  const forWindows = (client: Client, count: number) => () => before(endMs)() || admittedNow(client) < count;
  await Promise.all([
    small.greedy(forWindows(small, 3 * limits.small)),
    apart.greedy(forWindows(apart, 6 * limits.small)),
    large.greedy(before(endMs)),
    slots.greedy(before(endMs), 8),
    edge.steady(before(endMs), (1_050 * limits.small) / windowMs, () => 0),
  ]);
  const visits = await upstream.visits();
  const outcome = (client: Client, limit: number) => outcomeOf(client, visits, { limit, windowMs });
  expect(outcome(small, limits.small)).toMatchObject({ admitted: 3 * limits.small, worst: limits.small });
  const { admitted, ideal, worst } = outcome(large, limits.large);
  expect(worst).toBeLessThanOrEqual(limits.large);
  expect(admitted).toBeGreaterThan(0.98 * ideal);
  expect(outcome(edge, limits.small).worst).toBeLessThanOrEqual(limits.small);
  expect(outcome(apart, limits.small)).toMatchObject({ admitted: 6 * limits.small, worst: 2 * limits.small });
  expect(mostAtUpstream(slots, visits)).toBe(limits.slots);
  const { statuses, incomplete } = answersOf([small, large, slots, edge, apart].flatMap(({ asked }) => asked));
  expect(Object.keys(statuses)).toEqual(["200", "429"]);
  expect(incomplete).toBe(0);
});
