// Lets people act, and watches what comes of it: gateways that reach the store hold the same rules, a forgiveness empties each
// counter once, and nobody tells the store a count from before.
import type { Rule } from "../../src/core/rules.ts";
import type { CounterItem, Told } from "../../src/limits/store/script-call.ts";
import { gatewayLength } from "../../src/limits/store/script-call.ts";
import { addressAt } from "../limits/small-table.ts";
import type { Admissions } from "./admissions.ts";
import { type PersonPlan, warmUpMs } from "./plan.ts";
import type { SimulatedGateway } from "./simulated-gateway.ts";
import { beginWallMs, type ShardWatch, type SimulatedShard } from "./simulated-store.ts";
import type { World } from "./world.ts";

/** By then what was written is read everywhere: two heartbeats, and the time that messages take. */
const heardMs = 2_050;
/** The same after a failure: with the pause before the next connection, and the time until one is given up. */
const recoveryMs = 6_000;

interface Write {
  readonly revision: number;
  /** "" if the rule was removed. */
  readonly content: string;
}

export class People {
  readonly #world: World;
  /** By id, the newest version of each rule by the store's order, also if a store has lost it. */
  readonly #written = new Map<string, Write>();
  /** All contents that were written, so that what holds at one gateway alone is known to be told. */
  readonly #contents = new Set<string>();
  /** By gateway and id, what somebody has set there last. */
  readonly #set = new Map<string, { readonly gateway: SimulatedGateway; readonly rule: Rule | null }>();
  /** Whose removal was given up by a gateway that knew no such rule, and may have come late: then it removed one. */
  readonly #unsure = new Set<string>();
  /** How often each client was forgiven, and each counter emptied. */
  readonly #forgiven = new Map<string, number>();
  readonly #emptied = new Map<string, number>();
  /** When counters were emptied last, by their keys. */
  readonly #emptiedMs = new Map<string, number>();
  /** When a gateway has forgotten a client last. */
  readonly #forgottenMs = new Map<string, number>();
  #lastMs = 0;

  constructor(world: World) {
    this.#world = world;
    if (world.plan.people.length === 0) return;
    for (const shard of world.shards) shard.watch = this.#watch(shard);
    for (const act of world.plan.people) world.time.at(warmUpMs + act.atMs, () => this.#act(act));
  }

  /** A gateway has forgotten what it had counted of a client. */
  forgottenBy({ id }: SimulatedGateway, address: string): void {
    this.#forgottenMs.set(`${id} ${address}`, this.#world.time.nowMs);
    for (const counter of this.#countersOf(address)) {
      for (const each of counter.list) if (each.gateway === id) each.isForgottenHere = true;
    }
  }

  /** A store may have lost what it knew of a forgiveness. */
  lost(): void {
    this.#emptied.clear();
    this.#emptiedMs.clear();
  }

  /** When nothing fails any more, all gateways hold the rules that were written last. */
  async check(): Promise<void> {
    const { plan, time, judge, gateways } = this.#world;
    if (plan.people.length === 0) return;
    const ends = plan.failures.map((failure) => {
      return (
        warmUpMs + failure.atMs + ("forMs" in failure ? failure.forMs : 0) + ("lagMs" in failure ? failure.lagMs : 0)
      );
    });
    const recoveredMs = plan.failures.length === 0 ? 0 : Math.max(...ends) + recoveryMs;
    await time.runUntil(Math.max(this.#lastMs + heardMs, recoveredMs, time.nowMs));
    const alive = gateways.filter(({ isDead }) => !isDead);
    // What was written by a gateway that ended may be lost with it, and with a store that lost it.
    const mayBeLost = plan.failures.some(({ kind }) => kind === "crash");
    const [first] = alive;
    for (const { gateway, rules } of alive) {
      const held = this.#textOf(rules);
      if (first !== undefined && held !== this.#textOf(first.rules))
        judge.violate(`gateways ${first.gateway} and ${gateway} hold other rules`);
      const written = this.#textOf(
        new Map([...this.#written].map(([id, { content }]) => [id, ruleOf(id, content)])),
        this.#unsure,
      );
      const isAsWritten = this.#textOf(rules, this.#unsure) === written;
      if (!mayBeLost && !isAsWritten) judge.violate(`gateway ${gateway} holds ${held}, written were ${written}`);
    }
    for (const { gateway, rule } of this.#set.values()) {
      const isTold = rule === null || this.#textOf(new Map([["", rule]])) === "" || this.#contents.has(rule.note);
      if (!gateway.isDead && !isTold)
        judge.violate(`gateway ${gateway.gateway} has not told ${rule?.id} ${rule?.note}`);
    }
  }

  /** Those that hold for a while yet. */
  #textOf(rules: ReadonlyMap<string, Rule | null>, without: ReadonlySet<string> = new Set()): string {
    const nowMs = beginWallMs + this.#world.time.nowMs;
    const holding = [...rules.values()].flatMap((rule) => (rule !== null && rule.endsMs > nowMs + 1000 ? [rule] : []));
    return holding
      .filter(({ id }) => !without.has(id))
      .map(({ id, note }) => `${id} ${note}`)
      .sort()
      .join(", ");
  }

  #act(act: PersonPlan): void {
    const { gateways, time } = this.#world;
    const gateway = gateways[act.gateway];
    if (gateway === undefined || gateway.isDead) return;
    this.#lastMs = time.nowMs;
    this.#world.note(`somebody at gateway ${act.gateway}: ${JSON.stringify(act)}`);
    gateway.enter(() => void this.#do(act, gateway));
  }

  async #do(act: PersonPlan, gateway: SimulatedGateway): Promise<void> {
    const { shared, clock } = gateway;
    const { time, plan } = this.#world;
    if (shared === null) return;
    if (act.does === "forgive") {
      const value = addressAt(act.address);
      this.#forgiven.set(value, (this.#forgiven.get(value) ?? 0) + 1);
      await shared.forgive({ kind: "client", value });
      this.#lastMs = time.nowMs;
      return;
    }
    const id = `rule-${act.rule}`;
    const nowMs = clock.wallMs();
    const rule: Rule | null =
      act.does === "remove"
        ? null
        : {
            ...{ id, about: { kind: "client", value: addressAt(9) }, action: "block", policy: null, limit: null },
            ...{
              setMs: nowMs,
              endsMs: nowMs + act.lastsMs,
              note: `set at ${time.nowMs} by ${act.gateway}`,
              setBy: "socket",
              revision: 0,
            },
          };
    const result = rule === null ? await shared.remove(id, "any") : await shared.put(rule, "any");
    this.#lastMs = time.nowMs;
    if (result.outcome === "written") this.#set.set(`${gateway.id} ${id}`, { gateway, rule });
    else if (plan.failures.length > 0) this.#unsure.add(id);
  }

  #countersOf(address: string): readonly Admissions[] {
    return this.#world.judge.countersOf(address, (tag) => this.#world.shardOf(tag));
  }

  #counterAt(key: string, shard: SimulatedShard): Admissions | undefined {
    for (const counter of this.#world.judge.counters.values()) {
      const isKey = key === counter.storeKey || key.startsWith(`${counter.storeKey}/`);
      if (isKey && counter.shard === shard) return counter;
    }
    return undefined;
  }

  #watch(shard: SimulatedShard): ShardWatch {
    const { judge, time } = this.#world;
    return {
      forgets: (key) => {
        const counter = this.#counterAt(key, shard);
        if (counter === undefined) return;
        const times = (this.#emptied.get(key) ?? 0) + 1;
        this.#emptied.set(key, times);
        this.#emptiedMs.set(key, time.nowMs);
        const acts = this.#forgiven.get(counter.client) ?? 0;
        if (times > acts) judge.violate(`${key} was emptied ${times} times, its client forgiven ${acts} times`);
        for (const each of counter.list) Object.assign(each, { isGone: true, goneMs: time.nowMs });
        counter.forgiven.push({ atMs: time.nowMs, held: this.#heldOf(key, counter) });
      },
      told: (item, told) => this.#checkTold(item, told, shard),
      wrote: (name, revision, content) => {
        if (!name.startsWith("r/")) return;
        const id = name.slice(2);
        this.#contents.add(ruleOf(id, content)?.note ?? "");
        if ((this.#written.get(id)?.revision ?? 0) <= revision) this.#written.set(id, { revision, content });
      },
    };
  }

  /** Units that were granted before and may be spent later. */
  #heldOf(key: string, counter: Admissions): number {
    const { gateways, plan } = this.#world;
    const granted = mostOfCall(counter, plan.settings.lease.most);
    // Each request that waits may be granted something by a call that has others too.
    let held = this.#world.open.size * counter.policy.cost;
    for (const { isDead, threads } of gateways) {
      for (const { shared } of isDead ? [] : threads) {
        for (const { storeKey, held: leases, calls } of shared.book.all()) {
          if (storeKey === key) held += leases.unspent + calls * granted;
        }
      }
    }
    return held;
  }

  #checkTold({ id, key }: CounterItem, { units }: Told, shard: SimulatedShard): void {
    const emptiedMs = this.#emptiedMs.get(key);
    const counter = this.#counterAt(key, shard);
    if (emptiedMs === undefined || counter === undefined) return;
    const owner = id.slice(0, gatewayLength);
    const gateway = this.#world.judge.places.get(owner);
    // Who forgives forgets first.
    const sinceMs = Math.min(emptiedMs, this.#forgottenMs.get(`${owner} ${counter.client}`) ?? emptiedMs);
    let most = 0;
    for (const each of counter.list) if (each.gateway === owner && each.atMs >= sinceMs) most += each.units;
    for (const { shared } of gateway?.threads ?? []) {
      for (const { storeKey, held } of shared.book.all()) if (storeKey === key) most += held.unspent;
    }
    // Of leases that it held when it told, and does not hold any more: two late answers may have made them.
    most += 2 * mostOfCall(counter, this.#world.plan.settings.lease.most);
    if (units > most)
      this.#world.judge.violate(`${key}: ${owner} tells ${units} units, of ${most} since it was emptied`);
  }
}

function ruleOf(id: string, content: string): Rule | null {
  return content === "" ? null : { ...JSON.parse(content), id };
}

function mostOfCall({ policy: { cost, limit } }: Admissions, mostOfLease: number): number {
  return limit < 1000 ? cost : Math.max(cost, Math.min(mostOfLease, limit / 4));
}
