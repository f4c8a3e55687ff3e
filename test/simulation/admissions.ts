// What was admitted of one counter, in true time: the judge of the limit. Where nothing has failed it is the limit itself.
// Otherwise a window may have what the store does not know of and cannot: what gateways have admitted alone, and what a
// store has forgotten until it was told.
import type { Policy } from "../../src/core/policy.ts";
import type { SimulatedShard } from "./simulated-store.ts";

/** `maybe alone`: one of several that were decided at the same instant. */
export type Alone = "together" | "alone" | "maybe alone";

export interface Admission {
  readonly gateway: string;
  readonly atMs: number;
  /** By the clock of the store without its steps, and with them. */
  readonly steadyMs: number;
  readonly wallMs: number;
  /** The latter as the store counts it: another one if it was told of it again, after a step. */
  countedMs: number;
  readonly alone: Alone;
  /** The share of its gateway at that time, which a gateway that has just started may believe to be the whole limit. */
  readonly share: number;
  readonly units: number;
  /** Given back, or forgiven: does not count any more. */
  isGone: boolean;
  /** Since when. */
  goneMs: number;
  /** Whether its gateway has forgotten it, because its client was forgiven. */
  isForgottenHere: boolean;
  /** Until its exchange ends: then units that may be given back are kept or not, and told to a store that has lost them. */
  heldUntilMs: number;
}

/** A store has lost units that a gateway had in it, which did not tell it since. */
export interface Loss {
  readonly atMs: number;
  readonly gateway: string;
  readonly units: number;
  /** The store's clock was set forward, and nothing was lost but time. */
  readonly isStep: boolean;
  /** What its clock showed when the gateway told it, if it was a step: what had expired until then it knows since. */
  toldWallMs: number;
  /** The same when it began to tell. */
  tellingWallMs: number;
  /** From then on what is admitted cannot be excused by it. */
  endsMs: number;
}

/** What has become of units is told to the store within this time. */
export const heldLateMs = 60;

/**
 * So long after a period, units may be spent that it had granted, and so long before, a gateway may believe that the next
 * one has begun: then nobody knows which one a request is of.
 */
const [lateMs, earlyMs] = [1100, 20];

export class Admissions {
  readonly policy: Policy;
  readonly storeKey: string;
  readonly client: string;
  readonly shard: SimulatedShard;
  readonly windowMs: number;
  readonly list: Admission[] = [];
  readonly losses: Loss[] = [];
  /** When it was emptied, because its client was forgiven, and how many units gateways held then. */
  readonly forgiven: { readonly atMs: number; readonly held: number }[] = [];
  /**
   * What the store took for told when a gateway told it what it had lost: units that only the clock of the gateway has taken
   * out of the window.
   */
  readonly mistaken: { readonly atMs: number; readonly gateway: string; readonly units: number }[] = [];
  #first = 0;

  /** `shrunk`: the part of the window that counts. */
  constructor(policy: Policy, client: string, storeKey: string, shard: SimulatedShard, shrunk: number) {
    this.policy = policy;
    this.client = client;
    this.storeKey = storeKey;
    this.shard = shard;
    const { rate } = policy;
    this.windowMs = rate.kind === "sliding" ? rate.windowMs * shrunk : Number.POSITIVE_INFINITY;
  }

  add(gateway: string, atMs: number, alone: Alone, share: number): Admission {
    const { shard } = this;
    const steadyMs = shard.steadyMs();
    const last = this.list.at(-1);
    const isStored = last !== undefined && steadyMs - last.steadyMs < this.windowMs;
    // A counter's clock does not go back while the store has it.
    const wallMs = isStored ? Math.max(shard.wallMs(), last.wallMs) : shard.wallMs();
    const clocks = { atMs, steadyMs, wallMs, countedMs: wallMs };
    const admission = {
      ...clocks,
      isGone: false,
      goneMs: 0,
      isForgottenHere: false,
      heldUntilMs: 0,
      gateway,
      alone,
      share,
      units: this.policy.cost,
    };
    this.list.push(admission);
    return admission;
  }

  /** A gateway tells the store of all its admissions: what has expired there counts again, for the rest of its window. */
  tellAgain(gateway: string): void {
    const wallMs = this.shard.wallMs();
    const steadyMs = this.shard.steadyMs();
    for (const each of this.inWindow()) {
      if (each.gateway !== gateway || wallMs - each.countedMs < this.windowMs) continue;
      each.countedMs = wallMs - (steadyMs - each.steadyMs);
    }
  }

  /** Those of the trailing window, or of the period that the store's clock shows, or that are held. */
  *inWindow(): Generator<Admission> {
    const nowMs = this.shard.steadyMs();
    const { rate } = this.policy;
    const period = rate.kind === "calendar" ? Math.floor(this.shard.wallMs() / 60_000) : 0;
    for (let i = this.#first; i < this.list.length; i += 1) {
      const each = this.list[i];
      if (each === undefined) break;
      if (each.isGone) continue;
      const isOver =
        rate.kind === "calendar"
          ? Math.floor(each.wallMs / 60_000) !== period || isNearBorder(each.wallMs)
          : nowMs - each.steadyMs >= this.windowMs - 0.003;
      if (!isOver) yield each;
      else if (i === this.#first) this.#first += 1;
    }
  }

  /** Calendar: all that may be of the period that the store's clock shows. */
  countedAtMost(): number {
    const period = Math.floor(this.shard.wallMs() / 60_000);
    let units = 0;
    for (const each of this.list) if (!each.isGone && Math.floor(each.wallMs / 60_000) === period) units += each.units;
    return units;
  }

  /** Units of leases that were granted before the counter was emptied in this window, and may have been spent since. */
  heldWhenForgiven(nowMs: number): number {
    let units = 0;
    for (const { atMs, held } of this.forgiven) if (nowMs - atMs < this.windowMs + lateMs) units += held;
    return units;
  }

  /** Units that were held when the store lost them, and are still: it is told of them when they are kept. */
  heldWhenLost(nowMs: number): number {
    if (this.policy.chargeStatuses === null || this.losses.length === 0) return 0;
    const lostMs = Math.max(...this.losses.map(({ atMs }) => atMs));
    let units = 0;
    for (const each of this.inWindow())
      if (each.atMs <= lostMs && each.heldUntilMs + heldLateMs > nowMs) units += each.units;
    return units;
  }

  /** The same of units that the store took for told, in this window. */
  takenForTold(nowMs: number): number {
    const most = new Map<string, number>();
    for (const { atMs, gateway, units } of this.mistaken) {
      if (nowMs - atMs < this.windowMs * 1.02 + lateMs) most.set(gateway, Math.max(units, most.get(gateway) ?? 0));
    }
    return [...most.values()].reduce((sum, units) => sum + units, 0);
  }

  /** Without what was decided alone: the store does not know it. */
  spentTogether(): number {
    let units = 0;
    for (const each of this.inWindow()) if (each.alone === "together") units += each.units;
    return units;
  }

  counted(): number {
    let units = 0;
    for (const each of this.inWindow()) units += each.units;
    return units;
  }
}

function isNearBorder(wallMs: number): boolean {
  const inPeriodMs = wallMs % 60_000;
  return inPeriodMs < lateMs || inPeriodMs >= 60_000 - earlyMs;
}
