// Lets a failure happen, and tells the judge what it excuses: which units a store has lost, and which gateways cannot
// know of it for how long.
import type { Failure } from "./plan.ts";
import type { SimulatedShard } from "./simulated-store.ts";
import type { World } from "./world.ts";

export function play(world: World, failure: Failure): void {
  world.note(`failure: ${JSON.stringify(failure)}`);
  switch (failure.kind) {
    case "crash":
      crash(world, failure.gateway, failure.forMs);
      break;
    case "pause":
      world.judge.disturb(failure.gateway, -1, world.time.nowMs + failure.forMs);
      world.gateways[failure.gateway]?.pause(failure.forMs);
      break;
    case "cut":
      world.judge.disturb(failure.gateway, failure.shard, world.time.nowMs);
      cut(world, failure.gateway, failure.shard);
      break;
    case "part":
      part(world, failure.gateway, failure.shard, failure.forMs);
      break;
    case "late":
      late(world, failure.forMs, failure.share, failure.byMs);
      break;
    default:
      playAtShard(world, failure);
  }
}

function playAtShard(world: World, failure: Extract<Failure, { readonly shard: number }>): void {
  const shard = world.shards[failure.shard];
  if (shard === undefined) return;
  switch (failure.kind) {
    case "failover":
      failover(world, shard, failure.lagMs, failure.forMs);
      break;
    case "restart":
      goDown(world, shard, failure.forMs, () => shard.restart(failure.keepsData));
      break;
    case "flush":
      losing(world, shard, () => shard.flush());
      break;
    case "step":
      step(world, shard, failure.byMs);
      break;
    case "full":
    case "unready":
      fail(world, shard, failure.kind, failure.forMs);
      break;
  }
}

function crash(world: World, place: number, forMs: number): void {
  const gateway = world.gateways[place];
  if (gateway === undefined || gateway.isDead) return;
  gateway.end();
  for (const counter of world.judge.counters.values()) {
    if (counter.policy.rate.kind !== "concurrency") continue;
    for (const each of counter.list)
      if (each.gateway === gateway.id) Object.assign(each, { isGone: true, goneMs: world.time.nowMs });
  }
  world.time.after(forMs, () => {
    if (world.gateways[place] === gateway) world.start(place);
  });
}

function cut(world: World, place: number, shard: number): void {
  for (const connection of [...world.network.connections]) {
    const isMeant = connection.shard.number === shard && (place === -1 || connection.gateway === place);
    if (isMeant) world.network.cut(connection, "cut");
  }
}

function part(world: World, place: number, shard: number, forMs: number): void {
  world.judge.disturb(place, shard, world.time.nowMs + forMs);
  for (const { gateway } of world.gateways) {
    if (place === -1 || place === gateway) world.network.part(gateway, shard, forMs);
  }
}

function late(world: World, forMs: number, lateShare: number, lateMs: number): void {
  const { network } = world;
  world.judge.disturb(-1, -1, world.time.nowMs + forMs + lateMs);
  network.delays = { ...network.delays, lateShare, lateMs };
  world.time.after(forMs, () => {
    network.delays = world.plan.delays;
  });
}

/** The replica has what the primary had `lagMs` before its end. */
function failover(world: World, shard: SimulatedShard, lagMs: number, forMs: number): void {
  if (shard.isDown) return;
  shard.replicate();
  world.time.after(lagMs, () => goDown(world, shard, forMs, () => shard.promote()));
}

/** Nobody answers for a while; then `start` brings the server back. */
function goDown(world: World, shard: SimulatedShard, forMs: number, start: () => void): void {
  if (shard.isDown) return;
  world.judge.disturb(-1, shard.number, world.time.nowMs + forMs);
  shard.isDown = true;
  cut(world, -1, shard.number);
  world.time.after(forMs, () => {
    shard.isDown = false;
    losing(world, shard, start);
  });
}

function fail(world: World, shard: SimulatedShard, kind: "full" | "unready", forMs: number): void {
  world.judge.disturb(-1, shard.number, world.time.nowMs + forMs);
  shard.failing = kind;
  world.time.after(forMs, () => {
    shard.failing = null;
  });
}

/** Notes what of each counter is lost. */
function losing(world: World, shard: SimulatedShard, lose: () => void): void {
  const counters = [...world.judge.counters.values()].filter((counter) => counter.shard === shard);
  const before = counters.map((counter) => shard.unitsByGateway(counter));
  lose();
  world.people.lost();
  for (const [i, counter] of counters.entries()) {
    const after = shard.unitsByGateway(counter);
    for (const [gateway, units] of before[i] ?? []) {
      const lost = units - (after.get(gateway) ?? 0);
      if (lost > 0) world.judge.lost(counter, { atMs: world.time.nowMs, gateway, units: lost, isStep: false });
    }
  }
}

/** A clock that was set forward makes everything expire too early. */
function step(world: World, shard: SimulatedShard, byMs: number): void {
  shard.steppedMs += byMs;
  world.note(`the clock of shard ${shard.number} shows ${shard.wallMs().toFixed(3)}`);
  if (byMs <= 0) return;
  const atMs = world.time.nowMs;
  for (const counter of world.judge.counters.values()) {
    if (counter.shard !== shard) continue;
    for (const { id } of world.starts) world.judge.lost(counter, { atMs, gateway: id, units: 0, isStep: true });
  }
}
