// The clients of a run: few, and so greedy that the limit is what holds them back.
import type { ClientPlan, Scene } from "./plan.ts";
import { windowMsOf } from "./plan.ts";

/** Requests of a run, on average. */
const requests = 400;

export function drawClients(scene: Scene): readonly ClientPlan[] {
  const { chance } = scene;
  const kinds = chance.one<readonly ClientPlan["kind"][]>([
    ["greedy"],
    ["greedy", "greedy", "greedy"],
    ["edge"],
    ["edge", "waiter"],
    ["waiter"],
    ["burst"],
    ["greedy", "burst", "waiter"],
    ["greedy", "flood"],
  ]);
  const isCrowd = chance.happens(0.7);
  return kinds.map((kind, i) => drawClient(scene, kind, kind === "greedy" && isCrowd ? 0 : i, kinds.length));
}

function drawClient(scene: Scene, kind: ClientPlan["kind"], address: number, count: number): ClientPlan {
  const { chance, policies, windowMs, loadMs, gateways } = scene;
  // How often the tightest policy admits a request.
  const idealGapMs = Math.max(...policies.map((policy) => (windowMsOf(policy) * policy.cost) / policy.limit));
  const leastGapMs = (loadMs * count) / requests;
  const share = chance.one([0.3, 0.6, 0.9]);
  const gapMs =
    kind === "edge" ? idealGapMs * chance.between(0.8, 1.1) : kind === "burst" ? windowMs : idealGapMs * share;
  return {
    kind,
    address,
    beginMs: chance.happens(0.5) ? 0 : chance.between(0, loadMs / 3),
    gapMs: Math.max(kind === "waiter" ? leastGapMs / 2 : leastGapMs, Math.min(gapMs, loadMs / 4)),
    gateway: chance.happens(0.6) ? -1 : chance.whole(0, gateways - 1),
    lastsMs: chance.skewed(1, 300),
    chargedShare: chance.one([0, 0.5, 1]),
  };
}
