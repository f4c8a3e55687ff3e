// Those who ask.
import { addressAt } from "../limits/small-table.ts";
import { Chance } from "./chance.ts";
import { type ClientPlan, type Plan, spendMsOf, warmUpMs, windowMsOf } from "./plan.ts";
import type { Answer, World } from "./world.ts";

/** Rounding. */
const marginMs = 0.01;

export function startClients(world: World): void {
  for (const [i, client] of world.plan.clients.entries()) {
    const chance = new Chance(world.plan.seed, 100 + i);
    world.time.at(warmUpMs + client.beginMs, () => {
      if (client.kind === "waiter") new Waiter(world, client, chance).ask();
      else if (client.kind === "burst") burst(world, client, chance);
      else repeat(world, client, chance, 0);
    });
  }
}

export function isOver({ time, plan }: World): boolean {
  return time.nowMs >= warmUpMs + plan.loadMs;
}

function repeat(world: World, client: ClientPlan, chance: Chance, sent: number): void {
  if (isOver(world)) return;
  const address = addressAt(client.kind === "flood" ? 1000 + sent : client.address);
  world.ask(client, address, client.gateway, null);
  world.time.after(client.gapMs * chance.between(0.2, 1.8), () => repeat(world, client, chance, sent + 1));
}

function burst(world: World, client: ClientPlan, chance: Chance): void {
  if (isOver(world)) return;
  for (let i = 0; i < 20; i += 1) world.ask(client, addressAt(client.address), client.gateway, null);
  world.time.after(client.gapMs * chance.between(0.3, 1.3), () => burst(world, client, chance));
}

/** Asks until it is refused, then as soon as it may. */
class Waiter {
  readonly #world: World;
  readonly #client: ClientPlan;
  readonly #chance: Chance;
  readonly #isAlone: boolean;
  /** Whether it asks as soon as it was told it may. */
  #hasWaited = false;
  #refusedMs = 0;

  constructor(world: World, client: ClientPlan, chance: Chance) {
    this.#world = world;
    this.#client = client;
    this.#chance = chance;
    this.#isAlone = isAlone(world.plan, client);
  }

  ask(): void {
    const { kind } = this.#client;
    if (isOver(this.#world) || kind !== "waiter") return;
    this.#world.ask(this.#client, addressAt(this.#client.address), this.#client.gateway, (answer) =>
      this.#next(answer),
    );
  }

  #next({ outcome, retryMs, mayEndSoon }: Answer): void {
    const { plan, time, judge } = this.#world;
    if (outcome === "admitted") {
      this.#hasWaited = false;
      time.after(this.#client.gapMs * this.#chance.between(0.2, 1.8), () => this.ask());
      return;
    }
    if (this.#hasWaited && this.#isAlone && !this.#isExcused()) {
      const sinceMs = (time.nowMs - this.#refusedMs).toFixed(3);
      judge.violate(`a client was refused that had waited for ${sinceMs} ms, as it was told`);
    }
    this.#hasWaited = outcome === "throttled" && !mayEndSoon;
    this.#refusedMs = time.nowMs;
    // Where clocks drift, what was told is right by a clock that may have drifted for a window.
    const rates = [1, ...[...plan.gateways, ...plan.shards].map(({ rate }) => rate)];
    const drift = Math.max(...rates) / Math.min(...rates) - 1;
    // Of several shards, one may have granted a unit that comes back at the end of its lease.
    const leaseMs = Math.max(...plan.policies.map((policy) => spendMsOf(policy, plan.settings)));
    const strandedMs = plan.policies.length > 1 && plan.shards.length > 1 ? leaseMs + 30 : 0;
    const driftMs = drift * (retryMs + Math.max(...plan.policies.map(windowMsOf)));
    const waitMs = outcome === "throttled" ? retryMs + strandedMs + driftMs + marginMs : 100;
    time.after(Math.max(1, waitMs), () => this.ask());
  }

  /** A failure within the last window may have made it wait longer. */
  #isExcused(): boolean {
    const { plan, time } = this.#world;
    const windowMs = Math.max(...plan.policies.map(windowMsOf));
    return plan.failures.some((failure) => {
      const beginMs = warmUpMs + failure.atMs;
      const forMs = "forMs" in failure ? failure.forMs : 0;
      const lagMs = "lagMs" in failure ? failure.lagMs : "byMs" in failure ? Math.abs(failure.byMs) : 0;
      return beginMs <= time.nowMs && beginMs + forMs + lagMs + windowMs + 6000 > this.#refusedMs;
    });
  }
}

/** Nobody else spends what it asks for, and no end of an exchange decides about it. */
function isAlone({ policies, clients }: Plan, { address }: ClientPlan): boolean {
  const neighbours = clients.filter((each) => each.address === address).length;
  const isKeyed = policies.every(({ key }) => key.length > 0);
  return (
    neighbours === 1 && (isKeyed || clients.length === 1) && policies.every(({ rate }) => rate.kind !== "concurrency")
  );
}
