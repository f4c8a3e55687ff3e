// What must be true when exchanges have ended and everybody has found back to the store, while all that was admitted still
// counts: the store counts what was kept and nothing else, the rest is there for who asks at any gateway, and a refusal says
// when there is room.
import { holdsUntilEnd } from "../../src/limits/policies.ts";
import { addressAt } from "../limits/small-table.ts";
import type { Admissions } from "./admissions.ts";
import { clientPlan } from "./small-plan.ts";
import type { Answer, World } from "./world.ts";

/** Everybody has found back, and the longest exchanges have ended. */
const settledMs = 7_000;
/** As long as units count as held that a gateway has not given back that has died, and a while longer. */
const diedMs = 11_000;
const mostWaits = 3;

export async function checkSettled(world: World): Promise<void> {
  const { plan, time, judge } = world;
  const hasCrash = plan.failures.some(({ kind }) => kind === "crash");
  await time.runUntil(time.nowMs + settledMs + (hasCrash ? diedMs : 0));
  // What became of units of a gateway that has died, nobody tells.
  if (!hasCrash) for (const counter of judge.counters.values()) checkStored(world, counter);
  const addresses = [...new Set(plan.clients.map(({ address }) => addressAt(address)))];
  for (const address of addresses) await checkRoom(world, address, hasCrash);
  for (const address of addresses) await checkWait(world, address);
}

function checkStored({ plan, judge }: World, counter: Admissions): void {
  const { policy, client, shard } = counter;
  const [stored, kept] = [shard.unitsNow(counter), counter.counted()];
  // What was admitted alone is told when its key is asked for; beside units that another thread held it may count as those.
  const isExact = holdsUntilEnd(policy) && plan.gateways.every(({ threads }) => threads === 1);
  const least = isExact ? kept : counter.spentTogether();
  if (stored < least || stored > kept)
    judge.violate(`${policy.name} of ${client}: the store counts ${stored}, ${kept} were kept`);
}

/** Asks the last gateway so often at once, for exchanges that are charged. */
async function ask(world: World, address: string, times: number): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  const place = world.gateways.length - 1;
  for (let i = 0; i < times; i += 1)
    world.ask(clientPlan({ lastsMs: 20 }), address, place, (answer) => void answers.push(answer));
  await world.time.runUntil(world.time.nowMs + 200);
  return answers;
}

/** A client asks for more than is left. */
async function checkRoom(world: World, address: string, hasCrash: boolean): Promise<void> {
  const counters = world.judge.countersOf(address, (tag) => world.shardOf(tag));
  const left = counters.map((counter) => (counter.policy.limit - counter.counted()) / counter.policy.cost);
  const room = Math.max(0, Math.floor(Math.min(...left)));
  const answers = await ask(world, address, room + 1);
  const admitted = answers.filter(({ outcome }) => outcome === "admitted").length;
  // The judge has seen to it that there are not too many.
  if (admitted < room && !hasCrash)
    world.judge.violate(`${address}: ${admitted} admitted where there is room for ${room}`);
}

/** It asks as soon as it is told that it may. What was told again to a store that had lost it may count a moment longer. */
async function checkWait(world: World, address: string): Promise<void> {
  const waits: number[] = [];
  while (waits.length < mostWaits) {
    const [answer] = await ask(world, address, 1);
    if (answer === undefined || answer.outcome === "admitted") return;
    waits.push(answer.retryMs);
    await world.time.runUntil(world.time.nowMs + answer.retryMs);
  }
  world.judge.violate(`${address}: refused after waits of ${waits.join(" ms, ")} ms, as it was told`);
}
