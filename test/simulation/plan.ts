// What happens in a run, drawn from its seed: who is there, what they are limited by, what they ask for, what fails. It is
// plain data, so that a failing run can be tried with less of it.

import type { Policy } from "../../src/core/policy.ts";
import type { SharedStoreSettings } from "../../src/core/store-link.ts";
import { counterRulesOf } from "../../src/limits/store/counter-rules.ts";
import { Chance } from "./chance.ts";
import { drawClients } from "./draw-clients.ts";
import { drawFailures } from "./draw-failures.ts";
import { drawPeople } from "./draw-people.ts";
import { drawPolicies } from "./draw-policies.ts";
import type { Delays } from "./network.ts";

export interface Plan {
  readonly seed: number;
  /** From the first request to the last. */
  readonly loadMs: number;
  readonly settings: SharedStoreSettings;
  readonly policies: readonly Policy[];
  readonly gateways: readonly GatewayPlan[];
  readonly shards: readonly ClockPlan[];
  readonly delays: Delays;
  readonly clients: readonly ClientPlan[];
  readonly failures: readonly Failure[];
  /** What people do at gateways; if anything, gateways share rules. */
  readonly people: readonly PersonPlan[];
}

/** `forgive`: the client with this number. `remove`, `set`: the rule with this number; `endsMs`: from then on it is over. */
export type PersonPlan = { readonly atMs: number; readonly gateway: number } & (
  | { readonly does: "forgive"; readonly address: number }
  | { readonly does: "set"; readonly rule: number; readonly lastsMs: number }
  | { readonly does: "remove"; readonly rule: number }
);

/** `rate`: of the monotonic clock, and of the store's; 1 is right. `skewMs`: of the wall clock. */
export interface ClockPlan {
  readonly rate: number;
  readonly skewMs: number;
}

export interface GatewayPlan extends ClockPlan {
  readonly threads: number;
}

/**
 * `greedy`: asks again and again. `edge`: about as often as the limit allows, somewhere. `waiter`: alone on its key, asks
 * until it is refused, then waits for exactly as long as it was told. `burst`: 20 at once, then again after a window.
 * `flood`: each request is of a new client.
 */
export interface ClientPlan {
  readonly kind: "greedy" | "edge" | "waiter" | "burst" | "flood";
  readonly address: number;
  readonly beginMs: number;
  /** Between two requests, on average. */
  readonly gapMs: number;
  /** The gateway; -1: another one each time. */
  readonly gateway: number;
  /** How long an exchange lasts, on average. */
  readonly lastsMs: number;
  /** What the share of responses is that are charged, where the status decides. */
  readonly chargedShare: number;
}

/** `gateway`: -1 means all. */
export type Failure = { readonly atMs: number } & (
  | { readonly kind: "crash"; readonly gateway: number; readonly forMs: number }
  | { readonly kind: "pause"; readonly gateway: number; readonly forMs: number }
  | { readonly kind: "cut"; readonly gateway: number; readonly shard: number }
  | { readonly kind: "part"; readonly gateway: number; readonly shard: number; readonly forMs: number }
  | { readonly kind: "late"; readonly forMs: number; readonly share: number; readonly byMs: number }
  | { readonly kind: "failover"; readonly shard: number; readonly lagMs: number; readonly forMs: number }
  | { readonly kind: "restart"; readonly shard: number; readonly keepsData: boolean; readonly forMs: number }
  | { readonly kind: "flush"; readonly shard: number }
  | { readonly kind: "step"; readonly shard: number; readonly byMs: number }
  | { readonly kind: "full"; readonly shard: number; readonly forMs: number }
  | { readonly kind: "unready"; readonly shard: number; readonly forMs: number }
);

/** Two clocks differ by less than 1 %. */
const mostDrift = 0.00495;

/** Before it, gateways connect to the store and learn of each other. */
export const warmUpMs = 1500;

export function drawPlan(seed: number): Plan {
  const chance = new Chance(seed);
  const hasDrift = chance.happens(0.6);
  const rate = (): number => (hasDrift ? 1 + chance.one([-1, 1, chance.between(-1, 1), 0]) * mostDrift : 1);
  const clock = (): ClockPlan => ({ rate: rate(), skewMs: chance.between(-40, 40) });
  const gateways = Array.from({ length: chance.one([1, 2, 2, 3, 3, 4]) }, () => {
    return { ...clock(), threads: chance.happens(0.15) ? 2 : 1 };
  });
  // The clocks of a cluster's machines are set by the same time.
  const storeRate = rate();
  const shards = Array.from({ length: chance.happens(0.15) ? 3 : 1 }, () => ({ ...clock(), rate: storeRate }));
  const policies = drawPolicies(chance);
  const windowMs = longestWindowMs(policies);
  const loadMs = Math.min(windowMs * chance.between(1.2, 3.2), 130_000) + 200;
  const mostMs = chance.one([0.3, 1, 2, 4]);
  const settings: SharedStoreSettings = {
    prefix: "headgate:",
    waitMs: chance.one([10, 10, 10, 20, 100]),
    lease: { durationMs: chance.one([200, 200, 50, 1000]), most: chance.one([1000, 1000, 50, 10_000]) },
    onFailure: chance.one(["local", "local", "local", "closed", "open"]),
    replicas: chance.one(["auto", "auto", gateways.length]),
    maxKeys: 100_000,
  };
  const scene = { chance, gateways: gateways.length, shards: shards.length, policies, windowMs, loadMs };
  return {
    seed,
    loadMs,
    settings,
    policies,
    gateways,
    shards,
    delays: { leastMs: mostMs / 4, mostMs, lateShare: 0, lateMs: 0 },
    clients: drawClients(scene),
    failures: drawFailures(scene),
    people: drawPeople(scene, new Chance(seed, 3)),
  };
}

/** What clients and failures are drawn for. */
export interface Scene {
  readonly chance: Chance;
  readonly gateways: number;
  readonly shards: number;
  readonly policies: readonly Policy[];
  readonly windowMs: number;
  readonly loadMs: number;
}

export function windowMsOf({ rate }: Policy): number {
  return rate.kind === "sliding" ? rate.windowMs : rate.kind === "calendar" ? 60_000 : 1000;
}

/** For how long units of a policy may be spent after they were asked for. */
export function spendMsOf(policy: Policy, settings: SharedStoreSettings): number {
  const isByRequest = policy.rate.kind === "concurrency" || policy.chargeStatuses !== null;
  return counterRulesOf(policy, { limit: policy.limit, isByRequest, untilMs: 0 }, settings).spendMs;
}

export function longestWindowMs(policies: readonly Policy[]): number {
  return Math.max(...policies.map(windowMsOf));
}

/** Whether a request that asks twice may get its second answer too late. */
export function maySecondBeLate({ delays, settings }: Plan): boolean {
  return 4 * delays.mostMs + 2 > settings.waitMs;
}
