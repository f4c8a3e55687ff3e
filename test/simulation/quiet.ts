// What must be true when nobody asks any more: the store counts what was spent, and nothing is left of what was not.
import type { Policy } from "../../src/core/policy.ts";
import { slotLeaseMs } from "../../src/limits/store/counter-rules.ts";
import type { Admissions } from "./admissions.ts";
import { maySecondBeLate, spendMsOf, windowMsOf } from "./plan.ts";
import type { World } from "./world.ts";

/** After an outage everybody has found back by then. */
const recoveryMs = 6000;
const longestExchangeMs = 600;

export async function becomeQuiet(world: World): Promise<void> {
  const { plan, time, judge } = world;
  await time.runUntil(time.nowMs + longestExchangeMs);
  const open = [...world.open.values()].filter(({ isDead, resumedMs }) => !isDead && time.nowMs > resumedMs + 200);
  if (open.length > 0) judge.violate(`${open.length} requests have no answer`);
  checkClaims(world);
  if (plan.failures.length === 0) {
    const leaseMs = Math.max(...plan.policies.map((policy) => spendMsOf(policy, plan.settings)));
    // A lease that was spent from, one more that was made because of that, the timers that end them, and the calls that
    // give them back.
    await time.runUntil(time.nowMs + 2 * (leaseMs * 1.02 + 40 + 4 * plan.delays.mostMs));
    // What was decided alone, the store does not know.
    if (!maySecondBeLate(plan)) for (const counter of judge.counters.values()) checkCount(world, counter);
    checkUndisturbed(world);
    checkHeld(world);
    return;
  }
  const lastMs = Math.max(...plan.failures.map((failure) => failure.atMs + ("forMs" in failure ? failure.forMs : 0)));
  const longestMs = Math.max(...plan.policies.map((policy) => Math.max(windowMsOf(policy), stayMsOf(policy))));
  // The longer ones cost too much time.
  if (longestMs > 10_000 || lastMs > plan.loadMs || plan.failures.some(({ kind }) => kind === "step")) return;
  await time.runUntil(time.nowMs + recoveryMs + 1.02 * longestMs + plan.settings.lease.durationMs);
  for (const counter of judge.counters.values()) checkEmpty(world, counter);
  for (const { gateway, isDead, threads } of world.gateways) {
    for (const { shared } of threads) {
      const { state } = shared.figures();
      if (!isDead && state !== "up") judge.violate(`gateway ${gateway} has not found back: ${state}`);
    }
  }
}

/** Nobody waits any more, so nothing is reserved for a request. */
export function checkClaims({ gateways, open, judge }: World): void {
  const waiting = new Set(open.values());
  for (const gateway of gateways) {
    if (gateway.isDead || waiting.has(gateway)) continue;
    const known = gateway.threads.flatMap(({ shared }) => [...shared.book.all()]);
    const reserving = known.filter(({ held }) => held.reserved !== 0);
    if (reserving.length > 0)
      judge.violate(`gateway ${gateway.gateway} reserves units of ${reserving.length} keys for nobody`);
  }
}

/** Each unit that was granted is spent or returned by now, once. */
function checkHeld({ gateways, judge }: World): void {
  for (const { gateway, threads } of gateways) {
    for (const { shared } of threads) {
      const { heldUnits } = shared.figures();
      if (heldUnits !== 0) judge.violate(`gateway ${gateway}: ${heldUnits} units more granted than spent and returned`);
    }
  }
}

/** Slots that nobody gives back stay for so long. */
function stayMsOf({ rate }: Policy): number {
  return rate.kind === "concurrency" ? slotLeaseMs : 0;
}

/** Without a failure: no less than what counts, and no more than what counted a lease ago. */
function checkCount(world: World, counter: Admissions): void {
  const { rate, limit, name } = counter.policy;
  const spent = counter.counted();
  const leaseMs = spendMsOf(counter.policy, world.plan.settings);
  const nowMs = counter.shard.steadyMs();
  // In a long window, what was spent within a thousandth of it counts together.
  const grainMs = limit >= 1000 && rate.kind === "sliding" ? rate.windowMs / 1000 : 0;
  const slackMs = leaseMs * 1.03 + grainMs + 2 * world.plan.delays.mostMs + 1;
  let most = 0;
  for (const { steadyMs, units, isGone } of counter.list) {
    if (!isGone && nowMs - steadyMs < counter.windowMs + slackMs) most += units;
  }
  const stored = counter.shard.unitsNow(counter);
  if (rate.kind === "calendar") most = counter.countedAtMost();
  if (stored < spent - counter.heldWhenForgiven(world.time.nowMs))
    world.judge.violate(`${name}: the store counts ${stored}, ${spent} were spent (limit ${limit})`);
  if (stored > most) world.judge.violate(`${name}: the store counts ${stored}, at most ${most} may count: stranded`);
}

function checkEmpty(world: World, counter: Admissions): void {
  if (counter.policy.rate.kind === "calendar") return;
  const stored = counter.shard.unitsNow(counter);
  if (stored > 0) world.judge.violate(`${counter.policy.name}: ${stored} units are stranded`);
}

function checkUndisturbed({ plan, gateways, judge }: World): void {
  for (const { gateway, threads } of gateways) {
    for (const { shared } of threads) {
      const { waited, alone, state, replicas, forgot, clockSteps } = shared.figures();
      if (alone.local + alone.open + alone.closed > 0 && !maySecondBeLate(plan)) {
        judge.violate(`gateway ${gateway} has decided alone`);
      }
      if (waited.overdue > 0) judge.violate(`gateway ${gateway} had overdue answers`);
      if (state !== "up") judge.violate(`gateway ${gateway} is ${state}`);
      if (replicas !== plan.gateways.length) judge.violate(`gateway ${gateway} counts ${replicas} gateways`);
      if (forgot + clockSteps > 0) judge.violate(`gateway ${gateway} believes that the store forgot`);
    }
  }
}
