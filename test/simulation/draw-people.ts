// What people do at gateways in a run: they forgive clients, and set, replace and remove rules.
import type { Chance } from "./chance.ts";
import type { PersonPlan, Scene } from "./plan.ts";

export function drawPeople({ loadMs, gateways }: Scene, chance: Chance): readonly PersonPlan[] {
  if (chance.happens(0.6)) return [];
  const acts = Array.from({ length: chance.whole(1, 12) }, (): PersonPlan => {
    const at = { atMs: chance.between(0, loadMs), gateway: chance.whole(0, gateways - 1) };
    if (chance.happens(0.4)) return { ...at, does: "forgive", address: chance.one([0, 0, 0, 1]) };
    const rule = chance.whole(0, 2);
    if (chance.happens(0.3)) return { ...at, does: "remove", rule };
    return { ...at, does: "set", rule, lastsMs: chance.one([2_000, 600_000, 600_000]) };
  });
  return acts.sort((a, b) => a.atMs - b.atMs);
}
