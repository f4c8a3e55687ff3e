// How many gateways share the store, while some of them end and others start.
import { expect, test } from "vitest";
import { warmUpMs } from "../../simulation/plan.ts";
import { gatewayPlan, smallPlan } from "../../simulation/small-plan.ts";
import { World } from "../../simulation/world.ts";

async function threeGateways(threads = 1): Promise<World> {
  const world = new World(smallPlan({ gateways: [1, 2, 3].map(() => gatewayPlan({ threads })) }));
  await world.time.runUntil(warmUpMs);
  return world;
}

function pass({ time }: World, ms: number): Promise<void> {
  return time.runUntil(time.nowMs + ms);
}

/** As each thread counts them. */
function counted({ gateways }: World): number[] {
  return gateways.flatMap(({ threads }) => threads.map(({ shared }) => shared.figures().replicas));
}

/** A gateway drains, and another one takes its place. */
async function replace(world: World, place: number): Promise<void> {
  const gateway = world.gateways[place];
  for (const { shared } of gateway?.threads ?? []) void shared.close();
  await pass(world, 200);
  gateway?.end();
  world.start(place);
}

test("gateways that were replaced one after the other are counted once within half a minute", async () => {
  const world = await threeGateways();
  for (const place of [0, 1, 2]) {
    await replace(world, place);
    await pass(world, 3000);
  }
  await pass(world, 30_000);
  expect(counted(world)).toEqual([3, 3, 3]);
});

test("a gateway that died is not counted any more after a minute", async () => {
  const world = await threeGateways();
  world.gateways[2]?.end();
  await pass(world, 25_000);
  expect(counted(world).slice(0, 2)).toEqual([3, 3]);
  await pass(world, 35_000);
  expect(counted(world).slice(0, 2)).toEqual([2, 2]);
});

test("a gateway that died before the store's clock was set back is not counted any more after a minute", async () => {
  const world = await threeGateways();
  world.gateways[2]?.end();
  for (const shard of world.shards) shard.steppedMs -= 3_600_000;
  await pass(world, 60_000);
  const alive = world.gateways.slice(0, 2).flatMap(({ threads }) => threads);
  expect(alive.map(({ shared }) => shared.figures().replicas)).toEqual([2, 2]);
  expect(alive.map(({ shared }) => shared.counts.forgot)).toEqual([0, 0]);
});

test("gateways that were away with the store for an hour are still counted when it comes back", async () => {
  const world = await threeGateways();
  // They come back one after the other.
  for (const place of [0, 1, 2]) world.network.part(place, 0, 3_600_000 + 2000 * place);
  await pass(world, 3_599_000);
  for (let i = 0; i < 300; i += 1) {
    await pass(world, 100);
    expect(counted(world)).toEqual([3, 3, 3]);
  }
});

test("a thread that ends before the others of its gateway does not take it from the list", async () => {
  const world = await threeGateways(2);
  // The others of the fleet beat before the other thread of this one does.
  void world.gateways[2]?.threads[0]?.shared.close();
  await pass(world, 60_000);
  const others = world.gateways.flatMap(({ threads }) => threads.slice(1));
  expect(others.map(({ shared }) => shared.figures().replicas)).toEqual([3, 3, 3]);
  expect(others.map(({ shared }) => shared.counts.forgot)).toEqual([0, 0, 0]);
});
