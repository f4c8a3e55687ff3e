// Judges each admission by what was played: the limit, and beyond it only what a failure excuses.
import type { StateChange } from "../../src/core/store-link.ts";
import { policyText } from "../../src/limits/store/counter-rules.ts";
import { type CounterItem, gatewayLength, storeTagOf } from "../../src/limits/store/script-call.ts";
import { counterKeyOf } from "../support/limited-request.ts";
import { type Admission, Admissions, type Alone, type Loss } from "./admissions.ts";
import { type Plan, spendMsOf } from "./plan.ts";
import type { SimulatedGateway, Thread } from "./simulated-gateway.ts";
import type { SimulatedShard } from "./simulated-store.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** A gateway that can reach the store knows after a heartbeat that it forgot, and has told it two heartbeats later. */
const noticedMs = 3500;
/** The same after an outage: with the pause between two probes and the time until a connection is given up. */
const noticedLateMs = 6000;

/** Admissions count from a whole millisecond on. */
const roundingMs = 1;

export class Judge {
  readonly counters = new Map<string, Admissions>();
  readonly violations: string[] = [];
  readonly #plan: Plan;
  readonly #time: VirtualTime;
  readonly #shrunk: number;
  /** By thread and shard: when it has noticed a loss, and when it could ask again. */
  readonly #forgotMs = new Map<string, number>();
  readonly #returnedMs = new Map<string, number>();
  /** By gateway and shard: until when something has kept it from noticing a loss. */
  readonly #disturbedMs = new Map<string, number>();

  constructor(plan: Plan, time: VirtualTime) {
    this.#plan = plan;
    this.#time = time;
    // Gateways tell what counts by their own clocks.
    this.#shrunk = plan.failures.length === 0 ? 1 : 0.985;
  }

  violate(text: string): void {
    this.violations.push(`${this.#time.nowMs.toFixed(3)} ms: ${text}`);
  }

  countersOf(client: string, shardOf: (tag: string) => SimulatedShard): readonly Admissions[] {
    const found: Admissions[] = [];
    for (const policy of this.#plan.policies) {
      if (policy.mode === "shadow") continue;
      const isForAll = policy.key.length === 0;
      const name = `${policy.name} ${isForAll ? "all" : client}`;
      let counter = this.counters.get(name);
      if (counter === undefined) {
        const tag = isForAll ? noTag : storeTagOf(counterKeyOf(client));
        const storeKey = `${this.#plan.settings.prefix}1:{${tag}}:${policyText(policy)}`;
        counter = new Admissions(policy, client, storeKey, shardOf(tag), this.#shrunk);
        this.counters.set(name, counter);
      }
      found.push(counter);
    }
    return found;
  }

  admitted(counter: Admissions, { id }: SimulatedGateway, { shared }: Thread, alone: Alone): Admission {
    const { limit } = counter.policy;
    const { onFailure } = this.#plan.settings;
    // At least one request, whatever it costs.
    const share = Math.max(counter.policy.cost, Math.floor(limit / shared.replicas.value));
    const admission = counter.add(id, this.#time.nowMs, alone, share);
    this.#checkLater(counter);
    const hasShadow = this.#plan.policies.some(({ mode }) => mode === "shadow");
    if (alone === "alone" && onFailure === "closed" && !hasShadow)
      this.violate(`${counter.policy.name}: admitted alone although closed`);
    const byGateway = new Map<string, { alone: number; share: number }>();
    let units = 0;
    let own = 0;
    let forgotten = 0;
    for (const each of counter.inWindow()) {
      units += each.units;
      if (each.gateway === id && !each.isForgottenHere) own += each.units;
      // It was forgiven between the admission and the hearing of it: nobody can tell it to a store that has lost it since.
      const isLost = each.isForgottenHere && counter.losses.some((loss) => !loss.isStep && loss.atMs >= each.atMs);
      if (isLost || (each.alone !== "together" && each.isForgottenHere)) forgotten += each.units;
      else if (each.alone !== "together") {
        const of = byGateway.get(each.gateway) ?? { alone: 0, share: 0 };
        of.alone += each.units;
        of.share = Math.max(of.share, each.share);
        byGateway.set(each.gateway, of);
      }
    }
    if (alone === "alone" && onFailure === "local" && own > share && this.#plan.policies.length === 1) {
      this.violate(`${counter.policy.name}: a gateway alone has admitted ${own} of a share of ${share}`);
    }
    // Periods of a clock that was set are not those of the calendar.
    if (counter.policy.rate.kind === "calendar" && this.#plan.failures.some(({ kind }) => kind === "step")) {
      return admission;
    }
    if (units <= limit || (onFailure === "open" && byGateway.size > 0)) return admission;
    let excess = this.#lost(counter) + forgotten + counter.heldWhenForgiven(this.#time.nowMs);
    excess += counter.takenForTold(this.#time.nowMs) + this.#masked(counter) + counter.heldWhenLost(this.#time.nowMs);
    for (const of of byGateway.values()) excess += Math.min(of.alone, of.share);
    if (counter.policy.rate.kind === "concurrency") excess += this.#silent(counter);
    if (units > limit + excess) {
      this.violate(`${counter.policy.name} of ${counter.client}: ${units} in a window, ${limit} + ${excess} allowed`);
    }
    return admission;
  }

  /** While the store answers, it counts at least what was spent of it, until a window after it was spent. */
  #checkLater(counter: Admissions): void {
    const { policy, shard, windowMs } = counter;
    const isAnswered = this.#plan.failures.every(({ kind }) => kind === "pause");
    if (!isAnswered || policy.rate.kind !== "sliding" || policy.chargeStatuses !== null) return;
    this.#time.after((windowMs - 0.02) / shard.rate, () => {
      const spent = counter.spentTogether();
      const stored = shard.unitsNow(counter);
      if (stored < spent - counter.heldWhenForgiven(this.#time.nowMs))
        this.violate(`${policy.name}: the store counts ${stored}, ${spent} were spent`);
    });
  }

  /** Something keeps a gateway, or all (-1), from asking a shard, or all, until an instant. */
  disturb(gateway: number, shard: number, untilMs: number): void {
    const key = `${gateway} ${shard}`;
    this.#disturbedMs.set(key, Math.max(untilMs, this.#disturbedMs.get(key) ?? 0));
  }

  /** A shard has lost units of a gateway. */
  lost(counter: Admissions, loss: Omit<Loss, "endsMs" | "toldWallMs" | "tellingWallMs">): void {
    counter.losses.push({ ...loss, endsMs: Number.POSITIVE_INFINITY, toldWallMs: never, tellingWallMs: never });
  }

  /**
   * A gateway tells the store what it has admitted, after a loss. Its clock may be faster: then the store still counts what
   * the gateway no longer does, and takes it for something that it has just been told.
   */
  told(shard: SimulatedShard, { key, id }: CounterItem): void {
    const gateway = id.slice(0, gatewayLength);
    const rate = this.places.get(gateway)?.rate ?? 1;
    for (const counter of this.counters.values()) {
      const { policy, list, losses, mistaken, storeKey } = counter;
      const isLost = losses.some((loss) => loss.gateway === gateway && !loss.isStep);
      if (!isLost || counter.shard !== shard || storeKey !== key || policy.rate.kind !== "sliding") continue;
      const { windowMs } = policy.rate;
      let units = 0;
      for (const each of list) {
        const ageMs = shard.steadyMs() - each.steadyMs;
        const isOverThere = (ageMs * rate) / shard.rate >= windowMs - roundingMs;
        if (each.gateway === gateway && isOverThere && ageMs < windowMs + roundingMs) units += each.units;
      }
      if (units > 0) mistaken.push({ atMs: this.#time.nowMs, gateway, units });
    }
  }

  changed({ id }: SimulatedGateway, thread: number, { shard, to, cause }: StateChange): void {
    const nowMs = this.#time.nowMs;
    const key = `${id} ${thread} ${shard}`;
    if (to === "returned") {
      this.#returnedMs.set(key, nowMs);
      // Then it is told, by and by.
      for (const counter of this.counters.values()) {
        const { losses, shard: at } = counter;
        if (at.number !== shard) continue;
        for (const loss of losses) if (loss.gateway === id) loss.tellingWallMs = at.wallMs();
        if (cause === "forgot") counter.tellAgain(id);
      }
      this.#forgotMs.set(key, cause === "forgot" ? nowMs : -1);
    }
    if (to !== "up" || cause !== "told") return;
    const forgotMs = this.#forgotMs.get(key) ?? -1;
    const returnedMs = this.#returnedMs.get(key) ?? -1;
    for (const counter of this.counters.values()) {
      if (counter.shard.number !== shard) continue;
      const fromMs = nowMs + this.#heldMs(counter);
      for (const loss of counter.losses) {
        // Who has come back since must have found out, but a step of the clock while it was away may be too small. The answer to
        // a probe may have been on its way when the store forgot.
        const noticedMs = loss.isStep ? forgotMs : returnedMs - this.#plan.delays.mostMs - this.#plan.delays.lateMs;
        if (loss.gateway !== id || noticedMs < loss.atMs || fromMs >= loss.endsMs) continue;
        loss.endsMs = fromMs;
        loss.toldWallMs = loss.tellingWallMs;
      }
    }
  }

  /** For how long something may be spent that was granted. */
  #heldMs({ policy }: Admissions): number {
    if (policy.rate.kind === "concurrency") return 4000;
    return spendMsOf(policy, this.#plan.settings) + 10;
  }

  /** What the store should know and does not. */
  #lost(counter: Admissions): number {
    const nowMs = this.#time.nowMs;
    let units = 0;
    let granted = 0;
    // By a clock that was set, perhaps several times.
    const expired = new Set<Admission>();
    for (const loss of counter.losses) {
      const isKnown = nowMs >= this.#endOf(counter, loss);
      // A flush, or a step of the clock, is noticed late: what was granted since then counts as told, although it is not spent.
      const isLate = this.#plan.failures.some(({ kind }) => kind === "flush" || kind === "step");
      if (isKnown) {
        if (isLate && loss.atMs > nowMs - counter.windowMs * 1.02 - noticedLateMs) granted = this.#mostOfCall(counter);
        if (!loss.isStep) continue;
      }
      const { windowMs } = counter;
      let of = 0;
      for (const each of counter.inWindow()) {
        if (each.gateway !== loss.gateway || each.atMs > loss.atMs + this.#heldMs(counter)) continue;
        const isEarly = counter.shard.highestMs - each.wallMs >= windowMs;
        // What had expired when the store was told has been told, but another step may have made it expire again.
        const isCounted = counter.shard.highestMs - each.countedMs < windowMs;
        const isTold = isKnown && !each.isForgottenHere && loss.toldWallMs - each.wallMs >= windowMs && isCounted;
        if (!loss.isStep) of += each.units;
        else if ((isEarly && !isTold) || counter.policy.rate.kind !== "sliding") expired.add(each);
      }
      units += Math.min(of, loss.units);
    }
    for (const each of expired) units += each.units;
    return units + granted;
  }

  /**
   * What a gateway has forgotten and the store has not, the store takes for what the gateway tells it after a loss. So as much of
   * what was lost is missing, also when the former has expired.
   */
  #masked({ losses, list, windowMs }: Admissions): number {
    let units = 0;
    for (const { atMs, gateway, isStep, units: lost } of losses) {
      if (isStep || this.#time.nowMs - atMs > windowMs * 1.02) continue;
      let forgotten = 0;
      for (const each of list) {
        const isCounted = !each.isGone && each.atMs < atMs && atMs - each.atMs < windowMs * 1.02;
        if (isCounted && each.gateway === gateway && each.isForgottenHere) forgotten += each.units;
      }
      units += Math.min(lost, forgotten);
    }
    return units;
  }

  /** What one call may be granted. */
  #mostOfCall({ policy: { cost, limit } }: Admissions): number {
    return limit < 1000 ? cost : Math.max(cost, Math.min(this.#plan.settings.lease.most, limit / 4));
  }

  #endOf({ shard: { number } }: Admissions, { gateway, atMs, endsMs }: Loss): number {
    const place = this.places.get(gateway);
    if (place === undefined || place.isDead) return endsMs;
    const keys = [`-1 -1`, `${place.gateway} -1`, `-1 ${number}`, `${place.gateway} ${number}`];
    const disturbedMs = Math.max(...keys.map((key) => this.#disturbedMs.get(key) ?? 0));
    const latestMs = disturbedMs >= atMs ? disturbedMs + noticedLateMs : atMs + noticedMs;
    return Math.min(endsMs, latestMs);
  }

  /** Slots of gateways that the store may have taken for dead. */
  #silent(counter: Admissions): number {
    if (this.#disturbedMs.size === 0) return 0;
    let units = 0;
    for (const each of counter.inWindow()) units += each.units;
    return units;
  }

  /** Gateways by their ids. */
  readonly places = new Map<string, SimulatedGateway>();
}

const never = Number.NEGATIVE_INFINITY;
/** Of the one counter for all requests. */
const noTag = `h${"0".repeat(32)}`;
