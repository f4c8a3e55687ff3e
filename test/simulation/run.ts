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
}

export async function run(plan: Plan, log: ((line: string) => void) | null = null): Promise<RunResult> {
  const world = new World(plan, log);
  startClients(world);
  await world.load();
  await becomeQuiet(world);
  checkUtilisation(world);
  await world.people.check();
  for (const gateway of world.starts) gateway.end();
  const { requests, admitted, judge } = world;
  return { plan, violations: judge.violations, requests, admitted };
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
