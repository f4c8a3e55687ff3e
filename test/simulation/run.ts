// Runs a seed, and looks for a smaller run that fails in the same way.
import { startClients } from "./clients.ts";
import type { Plan } from "./plan.ts";
import { becomeQuiet } from "./quiet.ts";
import { checkUtilisation } from "./utilisation.ts";
import { World } from "./world.ts";

export interface RunResult {
  readonly plan: Plan;
  readonly violations: readonly string[];
  readonly requests: number;
  readonly admitted: number;
  /** Requests that were refused with the store's word, and so judged. */
  readonly refused: number;
}

export type Log = ((line: string) => void) | null;

export function run(plan: Plan, log: Log = null): Promise<RunResult> {
  return runTo(plan, log, async (world) => {
    await becomeQuiet(world);
    checkUtilisation(world);
    await world.people.check();
  });
}

/** `end`: what is waited for and checked when the last request has been sent. */
export async function runTo(plan: Plan, log: Log, end: (world: World) => Promise<void>): Promise<RunResult> {
  const world = new World(plan, log);
  startClients(world);
  await world.load();
  await end(world);
  for (const gateway of world.starts) gateway.end();
  const { requests, admitted, refused, judge } = world;
  return { plan, violations: judge.violations, requests, admitted, refused };
}

/** Returns a plan with fewer failures, clients and policies that fails too, if there is one. `tried`: how it is run. */
export async function shrink(plan: Plan, tried = run): Promise<Plan> {
  let smallest = plan;
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false;
    for (const candidate of smaller(smallest)) {
      if ((await tried(candidate)).violations.length === 0) continue;
      smallest = candidate;
      isSmaller = true;
      break;
    }
  }
  return smallest;
}

function* smaller(plan: Plan): Generator<Plan> {
  const without = <T>(list: readonly T[], i: number): readonly T[] => list.filter((_, at) => at !== i);
  for (const i of plan.failures.keys()) {
    // Without any failure, other rules hold.
    if (plan.failures.length > 1) yield { ...plan, failures: without(plan.failures, i) };
  }
  for (const i of plan.clients.keys())
    if (plan.clients.length > 1) yield { ...plan, clients: without(plan.clients, i) };
  for (const i of plan.policies.keys()) {
    // The first one is never a shadow.
    if (i > 0) yield { ...plan, policies: without(plan.policies, i) };
  }
  for (const i of plan.people.keys()) yield { ...plan, people: without(plan.people, i) };
  if (plan.loadMs > 500) yield { ...plan, loadMs: Math.floor(plan.loadMs * 0.7) };
}
