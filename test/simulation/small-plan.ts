// A run that a test writes down, rather than one that is drawn: nothing fails, clocks are right, messages take a millisecond.
import { slidingPolicy } from "../support/policy.ts";
import type { ClientPlan, GatewayPlan, Plan } from "./plan.ts";

export function smallPlan(parts: Partial<Plan>): Plan {
  return {
    seed: 1,
    loadMs: 5000,
    settings: {
      prefix: "headgate:",
      waitMs: 10,
      lease: { durationMs: 200, most: 1000 },
      onFailure: "local",
      replicas: "auto",
      maxKeys: 100_000,
    },
    policies: [slidingPolicy({ limit: 100, windowMs: 2000 })],
    gateways: [gatewayPlan({})],
    shards: [{ rate: 1, skewMs: 0 }],
    delays: { leastMs: 1, mostMs: 1, lateShare: 0, lateMs: 0 },
    clients: [clientPlan({})],
    failures: [],
    people: [],
    ...parts,
  };
}

export function gatewayPlan(parts: Partial<GatewayPlan>): GatewayPlan {
  return { rate: 1, skewMs: 0, threads: 1, ...parts };
}

/** Asks every 20 ms on average, wherever it likes. */
export function clientPlan(parts: Partial<ClientPlan>): ClientPlan {
  return {
    kind: "greedy",
    address: 0,
    beginMs: 0,
    gapMs: 20,
    gateway: -1,
    lastsMs: 1,
    chargedShare: 1,
    ...parts,
  };
}
