// Many requests with many policies at once: none is refused while each of its policies has room.
import { expect, test } from "vitest";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { drawCrowd, runCrowd } from "../../simulation/draw-crowd.ts";
import { warmUpMs } from "../../simulation/plan.ts";
import { smallPlan } from "../../simulation/small-plan.ts";
import { World } from "../../simulation/world.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { runs } from "../../support/runs.ts";

/** There is no time for a third question. */
const delays = { leastMs: 11, mostMs: 12, lateShare: 0, lateMs: 0 };

const requests = 320;

/** Half of them are about a client, the others about all. */
function policiesOf(count: number, parts: Partial<Policy>): readonly Policy[] {
  return Array.from({ length: count }, (_, i) => {
    const base = slidingPolicy({ name: `p${i}`, limit: 900, windowMs: 3_600_000 });
    return i % 2 === 0 ? base : { ...base, key: [], ...parts };
  });
}

/** Some requests are always under way, each of another client, until all have been decided. Returns the decisions. */
async function askAll(policies: readonly Policy[], atOnce: number): Promise<readonly Decision[]> {
  const settings = { ...smallPlan({}).settings, waitMs: 50 };
  const { time, gateways } = new World(smallPlan({ policies, delays, settings }));
  await time.runUntil(warmUpMs);
  const [gateway] = gateways;
  const thread = gateway?.threads[0];
  if (gateway === undefined || thread === undefined) throw new Error("there is no gateway");
  const decisions: Decision[] = [];
  let sent = 0;
  const ask = async (): Promise<void> => {
    if (sent === requests) return;
    sent += 1;
    const { request, head } = limitedRequest({ client: `192.0.2.${1 + (sent % 40)}` });
    const decision = await thread.limiter.ask(askedRequest(request, head, gateway.clock.monotonicMs()), "anonymous");
    decisions.push(decision);
    time.after(1, () => {
      decision.held?.end(401);
      gateway.enter(() => void ask());
    });
  };
  for (let i = 0; i < atOnce; i += 1) void ask();
  await time.runUntil(time.nowMs + 2_000);
  expect(thread.shared.figures().alone).toEqual({ local: 0, open: 0, closed: 0 });
  return decisions;
}

test.each<[string, number, Partial<Policy>]>([
  ["windows", 12, {}],
  ["statuses", 12, { chargeStatuses: [401] }],
  ["windows of 32", 32, {}],
])(
  "with %s, no request is refused that finds some of its units at once, and waits for others",
  async (_, count, parts) => {
    const decisions = await askAll(policiesOf(count, parts), 40);
    expect(decisions).toHaveLength(requests);
    expect(decisions.filter(({ outcome }) => outcome !== "admitted")).toEqual([]);
  },
);

const crowds = runs(1_000, 200).numRuns;

test(`in ${crowds} runs with up to 32 policies, bursts, stalls and losses, refusals are true and the limits hold`, async () => {
  const wrong: string[] = [];
  const all = { admitted: 0, refused: 0 };
  for (let seed = 0; seed < crowds; seed += 1) {
    const { violations, admitted: ofRun, refused } = await runCrowd(drawCrowd(seed));
    wrong.push(...violations.slice(0, 1).map((violation) => `seed ${seed}: at ${violation}`));
    all.admitted += ofRun;
    all.refused += refused;
  }
  expect(wrong).toEqual([]);
  expect(Math.min(all.admitted, all.refused)).toBeGreaterThan(20 * crowds);
});
