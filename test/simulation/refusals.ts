// Judges each refusal by what was played: the policy that the answer names had no room for the request, and the answer says
// when it has. Units that another gateway or thread may still spend are taken out, and so is what failures excuse.
import type { Decision, Policy } from "../../src/core/policy.ts";
import type { HeldLeases } from "../../src/limits/store/shared-key.ts";
import type { Admission, Admissions } from "./admissions.ts";
import { type Plan, spendMsOf, windowMsOf } from "./plan.ts";
import type { SimulatedGateway, Thread } from "./simulated-gateway.ts";
import type { World } from "./world.ts";

/** What was not spent is returned so long after the end of its lease. */
const returnMs = 25;
/** What a request held is known elsewhere so long after its end: with the time for which a refusal beside it is remembered. */
const heldLateMs = 100;
/** A refusal beside units that are held says to ask again after so long. */
const heldRetryMs = 1_000;
/** Rounding. */
const marginMs = 1.1;

export class Refusals {
  readonly #world: World;
  readonly #plan: Plan;
  /** By how much a window may seem longer by another clock. */
  readonly #drift: number;

  constructor(world: World) {
    this.#world = world;
    this.#plan = world.plan;
    const rates = [1, ...[...this.#plan.gateways, ...this.#plan.shards].map(({ rate }) => rate)];
    this.#drift = Math.max(...rates) / Math.min(...rates) - 1;
  }

  /** A request that was not decided alone is refused. */
  check(counter: Admissions, gateway: SimulatedGateway, thread: Thread, { resetMs }: Decision): void {
    const { time } = this.#world;
    if (this.#isExcused(counter)) return;
    const { limit, cost } = counter.policy;
    // The store's word is of the instant at which it was asked, and may have been read after a pause.
    const isResumed = time.nowMs - gateway.pausedUntilMs < this.#plan.settings.waitMs;
    const lateMs = this.#lateMs(counter) + (isResumed ? gateway.pausedUntilMs - gateway.pausedFromMs : 0);
    const nowMs = gateway.clock.monotonicMs();
    const spare = this.#heldIn(counter, thread, (held) => held.free(nowMs));
    const isFull = this.#counted(counter, thread, lateMs) + cost > limit;
    // What is admitted in the same turn may become known after this refusal.
    time.at(
      time.nowMs,
      () => {
        if (isFull || this.#counted(counter, thread, lateMs) + cost > limit) {
          this.#checkReset(counter, thread, resetMs - nowMs, lateMs);
          this.#checkHeldReset(counter, resetMs - nowMs, lateMs);
        } else this.#violateRefusal(counter, spare, lateMs);
      },
      0,
    );
  }

  /** There was room. `spare`: what the thread held. */
  #violateRefusal(counter: Admissions, spare: number, lateMs: number): void {
    const { time, judge } = this.#world;
    const { limit, cost } = counter.policy;
    const what = whatRefused(counter);
    if (spare >= cost) judge.violate(`${what} with ${spare} units in its hands`);
    const stored = counter.shard.mostStored(counter, time.nowMs - this.#memoryMs(counter.policy));
    if (!this.#isAlone && stored + cost > limit) return;
    const counting = this.#counting(counter, lateMs).length * cost;
    judge.violate(`${what} with ${counting} of ${limit} counting, ${stored} in the store`);
  }

  /** Whether nobody else can hold anything, and nothing is lost. */
  get #isAlone(): boolean {
    const { gateways, failures, shards } = this.#plan;
    const [first, ...others] = gateways;
    const isSure = failures.every(({ kind }) => kind === "pause") && shards.length === 1;
    return isSure && others.length === 0 && first?.threads === 1;
  }

  #counting(counter: Admissions, lateMs: number): readonly Admission[] {
    return counter.list.filter((each) => this.#mayCount(each, counter, lateMs));
  }

  /** What a request was granted that asks again, because the grant of another key was over, counts too. */
  #counted(counter: Admissions, thread: Thread, lateMs: number): number {
    const reserved = this.#heldIn(counter, thread, (held) => held.reserved);
    return this.#counting(counter, lateMs).reduce((sum, { units }) => sum + units, reserved);
  }

  #mayCount(each: Admission, { policy, shard }: Admissions, lateMs: number): boolean {
    const goneMs = this.#world.time.nowMs - each.goneMs;
    if (each.isGone && goneMs >= heldLateMs) return false;
    if (policy.rate.kind === "calendar") return shard.wallMs() - each.wallMs < 62_000;
    return shard.steadyMs() - each.steadyMs < windowMsOf(policy) + lateMs;
  }

  /** For so long a unit may count after its window. */
  #lateMs({ policy }: Admissions): number {
    const { delays, settings } = this.#plan;
    const windowMs = windowMsOf(policy);
    const grainMs = policy.limit >= 1000 ? windowMs / 1000 : 0;
    const cellMs = policy.limit > 10_000 ? windowMs / 4096 : 0;
    const spendMs = spendMsOf(policy, settings);
    return 1.02 * spendMs + grainMs + cellMs + this.#drift * windowMs + windowMs / 1000 + 2 * delays.mostMs + marginMs;
  }

  /** For so long a refusal may be remembered after others have held what was refused. */
  #memoryMs(policy: Policy): number {
    const { delays, settings, failures } = this.#plan;
    // What was not spent may be returned as late as that.
    if (failures.length > 0) return windowMsOf(policy) + 10_000;
    return 1.02 * spendMsOf(policy, settings) + returnMs + 50 + 4 * delays.mostMs + settings.waitMs;
  }

  /** Units of what the thread holds of a counter. */
  #heldIn({ storeKey, shard, policy }: Admissions, { shared }: Thread, unitsOf: (held: HeldLeases) => number): number {
    let units = 0;
    for (const known of shared.book.all()) {
      if (known.storeKey === shard.keyNow(storeKey, policy)) units += unitsOf(known.held);
    }
    return units;
  }

  #isExcused(counter: Admissions): boolean {
    const { policy, shard } = counter;
    const { failures, people } = this.#plan;
    if (policy.rate.kind === "concurrency") return true;
    // What a client was forgiven, gateways hear of at different times.
    if (people.some(({ does }) => does === "forgive")) return true;
    const inPeriodMs = shard.wallMs() % 60_000;
    if (policy.rate.kind !== "calendar") return false;
    return inPeriodMs < 1_200 || inPeriodMs > 58_800 || failures.some(({ kind }) => kind === "step");
  }

  /** There was no room. `inMs`: when there is, as the refusal says. */
  #checkReset(counter: Admissions, thread: Thread, inMs: number, lateMs: number): void {
    const { policy, shard } = counter;
    if (!this.#isAlone || policy.rate.kind !== "sliding" || policy.chargeStatuses !== null) return;
    let free = policy.limit - this.#counted(counter, thread, lateMs);
    let latestMs = 0;
    for (const each of this.#counting(counter, lateMs)) {
      if (free >= policy.cost) break;
      free += each.units;
      latestMs = windowMsOf(policy) + lateMs - (shard.steadyMs() - each.steadyMs);
    }
    // Only what is not spent yet counts for longer.
    if (free < policy.cost) latestMs = windowMsOf(policy) + lateMs;
    if (inMs <= latestMs + marginMs) return;
    const most = `at most ${latestMs.toFixed(1)} ms are true`;
    this.#world.judge.violate(`${whatRefused(counter)} for ${inMs.toFixed(1)} ms, ${most}`);
  }

  /** Requests hold what is missing, and may give it back: the refusal says to ask again soon. */
  #checkHeldReset(counter: Admissions, inMs: number, lateMs: number): void {
    const { policy } = counter;
    if (policy.chargeStatuses === null || this.#plan.failures.length > 0) return;
    const nowMs = this.#world.time.nowMs;
    let [kept, held] = [0, 0];
    for (const { heldUntilMs, units } of counter.inWindow()) {
      if (heldUntilMs > nowMs) held += units;
      else kept += units;
    }
    const room = policy.limit - policy.cost;
    if (kept <= room && kept + held > room && inMs > heldRetryMs + lateMs)
      this.#world.judge.violate(`${whatRefused(counter)} for ${inMs.toFixed(1)} ms, of ${kept} kept units`);
  }
}

function whatRefused({ policy, client }: Admissions): string {
  return `${policy.name} of ${client} has refused ${policy.cost}`;
}
