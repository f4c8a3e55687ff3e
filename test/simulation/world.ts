// One run: starts what the plan says, lets its clients ask and its failures happen, and returns what was wrong.
import type { Decision } from "../../src/core/policy.ts";
import { policyText } from "../../src/limits/store/counter-rules.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { type Admission, type Admissions, type Alone, heldLateMs } from "./admissions.ts";
import { Arrivals } from "./arrivals.ts";
import { Chance } from "./chance.ts";
import { play } from "./failures.ts";
import { Judge } from "./judge.ts";
import { Network } from "./network.ts";
import { People } from "./people.ts";
import { type ClientPlan, type Plan, warmUpMs } from "./plan.ts";
import { Refusals } from "./refusals.ts";
import { SimulatedGateway, type Thread } from "./simulated-gateway.ts";
import { SimulatedShard } from "./simulated-store.ts";
import { TableMemory } from "./table-memory.ts";
import { VirtualTime } from "./virtual-time.ts";

/** What came of a request. */
export interface Answer {
  readonly outcome: Decision["outcome"] | "unavailable";
  /** For how long the client was told to wait, by the gateway's clock. */
  readonly retryMs: number;
  /** Whether that promises nothing, because units of the client are held, or were until just now. */
  readonly mayEndSoon: boolean;
  readonly gateway: SimulatedGateway;
}

const memory = new TableMemory();
export class World {
  readonly plan: Plan;
  readonly time = new VirtualTime();
  readonly shards: readonly SimulatedShard[];
  readonly network: Network;
  readonly judge: Judge;
  readonly people: People;
  /** By place; the last start there. */
  readonly gateways: SimulatedGateway[] = [];
  /** All starts. */
  readonly starts: SimulatedGateway[] = [];
  readonly arrivals = new Arrivals();
  requests = 0;
  admitted = 0;
  /** Requests that were refused with the store's word, and so judged. */
  refused = 0;
  /** Requests that have no answer, by the gateway that has them. */
  readonly open = new Map<object, SimulatedGateway>();
  /** Until when the store may take units of a client for held, by address. */
  readonly #heldUntilMs = new Map<string, number>();
  readonly #refusals: Refusals;
  readonly #chance: Chance;
  readonly #log: ((line: string) => void) | null;

  /** `log`: gets the timeline. */
  constructor(plan: Plan, log: ((line: string) => void) | null = null) {
    memory.reuse();
    this.plan = plan;
    this.#log = log;
    this.#chance = new Chance(plan.seed, 1);
    this.shards = plan.shards.map(({ rate, skewMs }, i) => new SimulatedShard(i, this.time, rate, skewMs));
    this.network = new Network(this.time, new Chance(plan.seed, 2), this.shards, plan.delays);
    this.judge = new Judge(plan, this.time);
    const shadows = new Set(plan.policies.filter(({ mode }) => mode === "shadow").map(policyText));
    for (const shard of this.shards) {
      shard.told = (item) => this.judge.told(shard, item);
      shard.judgements.violate = (text) => this.judge.violate(text);
      shard.judgements.shadows = shadows;
    }
    this.people = new People(this);
    this.#refusals = new Refusals(this);
    if (log !== null) for (const shard of this.shards) shard.note = (text) => this.note(text);
    for (const [place] of plan.gateways.entries()) this.start(place);
  }

  note(text: string): void {
    this.#log?.(`${this.time.nowMs.toFixed(3).padStart(12)} ${text}`);
  }

  /** A gateway starts at a place. */
  start(place: number): void {
    const plan = this.plan.gateways[place];
    if (plan === undefined) return;
    const gateway = new SimulatedGateway(place, plan, {
      ...{ plan: this.plan, time: this.time, network: this.network, chance: this.#chance, memory },
      onForgiven: (at, address, seq) => {
        this.note(`gateway ${place} forgets ${address} (${seq})`);
        this.people.forgottenBy(at, address);
      },
      onChange: (from, thread, change) => {
        this.note(`gateway ${place}.${thread}: shard ${change.shard} ${change.from} → ${change.to} (${change.cause})`);
        this.judge.changed(from, thread, change);
      },
      // In a cluster, each shard judges its own keys.
      onTold: (wants, grants, sinceMs) => {
        const [only, ...others] = this.shards;
        if (others.length === 0) only?.judgements.told(wants, grants, sinceMs);
      },
    });
    this.note(`gateway ${place} starts as ${gateway.id}`);
    this.gateways[place] = gateway;
    this.starts.push(gateway);
    this.judge.places.set(gateway.id, gateway);
  }

  shardOf(tag: string): SimulatedShard {
    const number = this.gateways[0]?.threads[0]?.link.shardOf(tag) ?? 0;
    const shard = this.shards[number];
    if (shard === undefined) throw new Error("there is no such shard");
    return shard;
  }

  async load(): Promise<void> {
    await this.time.runUntil(warmUpMs);
    const { plan } = this;
    for (const failure of plan.failures) this.time.at(warmUpMs + failure.atMs, () => play(this, failure));
    await this.time.runUntil(warmUpMs + plan.loadMs);
  }

  /** A request of a client arrives at a gateway. `gateway`: -1 for any. Nobody is there if all are down. */
  ask(client: ClientPlan, address: string, place: number, answered: ((answer: Answer) => void) | null): void {
    const alive = this.gateways.filter(({ isDead }) => !isDead);
    const named = this.gateways[place];
    const gateway = named === undefined || named.isDead ? alive[this.#chance.whole(0, alive.length - 1)] : named;
    if (gateway === undefined) {
      if (answered !== null) this.time.after(100, () => this.ask(client, address, place, answered));
      return;
    }
    const thread = gateway.threads[this.#chance.whole(0, gateway.threads.length - 1)];
    if (thread === undefined) return;
    const arrival = this.arrivals.add(address, this.time.nowMs);
    const noted = (answer: Answer): void => {
      arrival.isAdmitted = answer.outcome === "admitted";
      answered?.(answer);
    };
    gateway.enter(() => this.#decide(client, address, gateway, thread, noted));
  }

  #decide(
    client: ClientPlan,
    address: string,
    gateway: SimulatedGateway,
    thread: Thread,
    answered: (answer: Answer) => void,
  ): void {
    const { request, head } = requestOf(address);
    const beginMs = gateway.clock.monotonicMs();
    this.requests += 1;
    const state = thread.shared.figures().state;
    const aloneBefore = aloneOf(thread);
    thread.asked.length = 0;
    const decided = thread.limiter.ask(askedRequest(request, head, beginMs), "anonymous");
    const asked = thread.asked.splice(0);
    if (!(decided instanceof Promise)) {
      this.#answer(client, address, gateway, thread, decided, aloneBefore, answered);
      return;
    }
    const counted = this.judge.countersOf(address, (tag) => this.shardOf(tag));
    if (this.shards.length === 1 && state !== "up" && counted.length > 0) {
      this.judge.violate(`a request waits although the store is ${state}`);
    }
    const open = {};
    this.open.set(open, gateway);
    decided.then(
      (decision) => {
        this.open.delete(open);
        if (gateway.isDead) return;
        const waitedMs = gateway.clock.monotonicMs() - beginMs;
        const wasPaused = gateway.resumedMs >= this.time.nowMs - waitedMs / gateway.rate - 1e-6;
        // The rest of the turn in which the call leaves, and of the one in which it is late, is not waiting.
        if (waitedMs > this.plan.settings.waitMs + 1.1 && !wasPaused) {
          this.judge.violate(`a request has waited for ${waitedMs.toFixed(3)} ms`);
        }
        const isGranted = asked.every(({ grants }) => grants?.every(({ kind }) => kind === "granted") === true);
        // The table counts in whole milliseconds: a unit may count there a little longer than in the store.
        const isBorder = decision.resetMs - gateway.clock.monotonicMs() <= 2;
        if (isGranted && decision.outcome !== "admitted" && this.#keepsGrants && !isBorder)
          this.judge.violate(`a request was granted all that it wanted, and is ${decision.outcome}`);
        this.#answer(client, address, gateway, thread, decision, null, answered);
      },
      (error: unknown) => {
        this.open.delete(open);
        this.judge.violate(`a request failed: ${String(error)}`);
      },
    );
  }

  /** Whether a grant is always in time, and what the store does not count, the table does not. */
  get #keepsGrants(): boolean {
    const { gateways, shards, failures, people } = this.plan;
    const rates = new Set([...gateways, ...shards].map(({ rate }) => rate));
    return failures.length + people.length === 0 && rates.size === 1 && shards.length === 1;
  }

  #answer(
    client: ClientPlan,
    address: string,
    gateway: SimulatedGateway,
    thread: Thread,
    decision: Decision,
    aloneBefore: number | null,
    answered: (answer: Answer) => void,
  ): void {
    const alone = this.#howAlone(thread, aloneBefore);
    const outcome: Answer["outcome"] = decision.outcome;
    if (this.#log !== null) {
      this.note(`gateway ${gateway.gateway}: ${client.kind} ${address} ${outcome} (${decision.policy.name}, ${alone})`);
    }
    if (outcome === "admitted") {
      this.admitted += 1;
      const admissions = this.judge
        .countersOf(address, (tag) => this.shardOf(tag))
        .map((counter) => [counter, this.judge.admitted(counter, gateway, thread, alone)] as const);
      this.#hold(client, address, gateway, decision, admissions);
    } else if (outcome === "throttled") {
      const refusing = this.judge
        .countersOf(address, (tag) => this.shardOf(tag))
        .find(({ policy }) => policy === decision.policy);
      if (alone === "together" && refusing !== undefined) {
        this.refused += 1;
        this.#refusals.check(refusing, gateway, thread, decision);
      }
    } else {
      if (outcome !== "unavailable" || this.plan.settings.onFailure !== "closed") {
        this.judge.violate(`a limited request is ${outcome}`);
      }
    }
    const mayEndSoon = (this.#heldUntilMs.get(address) ?? 0) >= this.time.nowMs;
    answered({ outcome, retryMs: decision.resetMs - gateway.clock.monotonicMs(), mayEndSoon, gateway });
  }

  /** Whether a decision was made without the store. Of those that waited, only the instant is known. */
  #howAlone(thread: Thread, before: number | null): Alone {
    const alone = aloneOf(thread);
    const isMore = alone > thread.aloneSeen;
    thread.aloneSeen = alone;
    if (isMore) thread.aloneMs = this.time.nowMs;
    if (before !== null) return alone > before ? "alone" : "together";
    return thread.aloneMs === this.time.nowMs ? "maybe alone" : "together";
  }

  /** The exchange lasts for a while, and ends with a status. */
  #hold(
    client: ClientPlan,
    address: string,
    gateway: SimulatedGateway,
    { held }: Decision,
    admissions: readonly (readonly [Admissions, Admission])[],
  ): void {
    if (held === null) return;
    const isCharged = this.#chance.happens(client.chargedShare);
    const end = (): void => {
      held.end(isCharged ? 401 : 200);
      for (const [{ policy }, admission] of admissions) {
        if (policy.rate.kind === "concurrency" || (policy.chargeStatuses !== null && !isCharged))
          Object.assign(admission, { isGone: true, goneMs: this.time.nowMs });
      }
    };
    const lastsMs = client.lastsMs * this.#chance.between(0.1, 2);
    const endsMs = this.time.nowMs + lastsMs;
    for (const [, admission] of admissions) admission.heldUntilMs = endsMs;
    this.#heldUntilMs.set(address, Math.max(endsMs + heldLateMs, this.#heldUntilMs.get(address) ?? 0));
    this.time.after(lastsMs, () => gateway.enter(end));
  }
}

function aloneOf({ shared }: Thread): number {
  const { local, open, closed } = shared.counts.alone;
  return local + open + closed;
}

const known = new Map<string, ReturnType<typeof limitedRequest>>();

function requestOf(address: string): ReturnType<typeof limitedRequest> {
  const found = known.get(address) ?? limitedRequest({ client: address });
  if (known.size > 10_000) known.clear();
  known.set(address, found);
  return found;
}
