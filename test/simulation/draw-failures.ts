// The failures of a run: none, one kind of them, or any.
import type { Chance } from "./chance.ts";
import type { Failure, Scene } from "./plan.ts";

type Kind = Failure["kind"];

const scenes: readonly (readonly Kind[])[] = [
  [],
  [],
  [],
  ["crash"],
  ["pause"],
  ["cut", "part"],
  ["late"],
  ["failover"],
  ["restart"],
  ["flush"],
  ["step"],
  ["full", "unready"],
  ["crash", "pause", "cut", "part", "late"],
  ["crash", "pause", "cut", "part", "late", "failover", "restart", "flush", "step", "full", "unready"],
];

export function drawFailures(scene: Scene): readonly Failure[] {
  const { chance, loadMs } = scene;
  const kinds = chance.one(scenes);
  if (kinds.length === 0) return [];
  const count = kinds.includes("crash") ? chance.whole(1, 6) : chance.whole(1, 3);
  const failures = Array.from({ length: count }, () => {
    return { ...drawFailure(scene, chance.one(kinds)), atMs: chance.between(0, loadMs * 0.9) };
  });
  for (const failure of [...failures]) {
    // A clock that was set back is often set right soon.
    if (failure.kind !== "step" || failure.byMs > 0 || chance.happens(0.3)) continue;
    failures.push({ ...failure, byMs: -failure.byMs, atMs: failure.atMs + chance.skewed(50, 4000) });
  }
  return failures.sort((a, b) => a.atMs - b.atMs);
}

function drawFailure({ chance, gateways, shards }: Scene, kind: Kind): Failure {
  const atMs = 0;
  const gateway = chance.whole(0, gateways - 1);
  const anyGateway = chance.happens(0.5) ? -1 : gateway;
  const shard = chance.whole(0, shards - 1);
  const forMs = durationMs(chance);
  switch (kind) {
    case "crash":
    case "pause":
      return { kind, atMs, gateway, forMs };
    case "cut":
      return { kind, atMs, gateway: anyGateway, shard };
    case "part":
      return { kind, atMs, gateway: anyGateway, shard, forMs };
    case "late":
      return { kind, atMs, forMs, share: chance.one([0.05, 0.3, 1]), byMs: chance.one([15, 50, 300, 1500]) };
    case "failover":
      return { kind, atMs, shard, lagMs: chance.one([0, 1, 50, 500, 3000]), forMs };
    case "restart":
      return { kind, atMs, shard, keepsData: chance.happens(0.3), forMs };
    case "flush":
      return { kind, atMs, shard };
    case "step":
      return { kind, atMs, shard, byMs: chance.one([-1, 1, 1]) * chance.skewed(30, 90_000) };
    case "full":
    case "unready":
      return { kind, atMs, shard, forMs };
  }
}

function durationMs(chance: Chance): number {
  return chance.skewed(5, 4000);
}
