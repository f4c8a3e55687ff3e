// A few gateways that a test asks itself, request by request, over a store that answers after two milliseconds.
import type { PolicyStats } from "../../src/core/limiter.ts";
import type { Decision, Policy } from "../../src/core/policy.ts";
import type { SharedStoreFigures } from "../../src/core/store-link.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { play } from "./failures.ts";
import { type Plan, warmUpMs } from "./plan.ts";
import { gatewayPlan, smallPlan } from "./small-plan.ts";
import { World } from "./world.ts";

type Asked = Parameters<typeof limitedRequest>[0];

export class SmallFleet {
  readonly #world: World;

  private constructor(world: World) {
    this.#world = world;
  }

  static async start(policies: readonly Policy[], plan: Partial<Plan> = {}): Promise<SmallFleet> {
    const world = new World(smallPlan({ policies, gateways: [gatewayPlan({}), gatewayPlan({})], ...plan }));
    await world.time.runUntil(warmUpMs);
    return new SmallFleet(world);
  }

  /** Asks a gateway `count` times in one turn. The list gets the decisions as they are made. */
  ask(place: number, asked: Asked, count = 1): readonly Decision[] {
    const { limiter, nowMs } = this.#at(place);
    const decisions: Decision[] = [];
    for (let i = 0; i < count; i += 1) {
      const { request, head } = limitedRequest(asked);
      const decided = limiter.ask(askedRequest(request, head, nowMs), "anonymous");
      if (!(decided instanceof Promise)) {
        decisions.push(decided);
        continue;
      }
      void decided.then((decision) => void decisions.push(decision));
    }
    return decisions;
  }

  /** Asks a gateway for a quota alone. */
  askQuota(place: number, asked: Asked, hits: number): void {
    const { limiter, nowMs } = this.#at(place);
    const { request: parsed, head } = limitedRequest(asked);
    void limiter.forQuotas().askAll([{ parsed, head, identity: null, isVerified: false, policy: null, hits }], nowMs);
  }

  #at(place: number): { limiter: PolicyLimiter; nowMs: number } {
    const gateway = this.#world.gateways[place];
    const limiter = gateway?.threads[0]?.limiter;
    if (limiter === undefined) throw new Error("there is no such gateway");
    return { limiter, nowMs: this.nowMs(place) };
  }

  /** Puts other policies into force, at all gateways or at one. */
  reload(policies: readonly Policy[], place?: number): void {
    for (const { gateway, threads, clock } of this.#world.gateways) {
      if (place !== undefined && place !== gateway) continue;
      for (const thread of threads) {
        const previous = thread.limiter;
        thread.limiter = new PolicyLimiter(policies, { clock, previous });
        previous.replacedBy(thread.limiter);
      }
    }
  }

  /** How long messages take from now on, in each direction. */
  delay(ms: number): void {
    this.#world.network.delays = { leastMs: ms, mostMs: ms, lateShare: 0, lateMs: 0 };
  }

  /** A gateway stands still; what it gets meanwhile, it reads afterwards. */
  standStill(place: number, forMs: number): void {
    this.#world.gateways[place]?.pause(forMs);
  }

  figures(place: number): SharedStoreFigures {
    const thread = this.#world.gateways[place]?.threads[0];
    if (thread === undefined) throw new Error("there is no such gateway");
    return thread.shared.figures();
  }

  /** What a gateway has counted of a policy. */
  outcomes(place: number, policy: string): PolicyStats["outcomes"] | undefined {
    const stats = this.#world.gateways[place]?.threads[0]?.limiter.stats();
    return stats?.find(({ policy: { name } }) => name === policy)?.outcomes;
  }

  /** How many keys a gateway knows something of that the store has said, or that the store has to be told. */
  remembered(place: number): number {
    return [...(this.#world.gateways[place]?.threads[0]?.shared.book.all() ?? [])].length;
  }

  /** The keys of the counters in the store. */
  get storedCounters(): readonly string[] {
    return this.#world.shards.flatMap(({ model }) => model.storedCounters);
  }

  /** By the clock of a gateway. */
  nowMs(place: number): number {
    return this.#world.gateways[place]?.clock.monotonicMs() ?? Number.NaN;
  }

  /** Somebody sets the clocks of the store's servers. */
  stepStore(ms: number): void {
    for (const shard of this.#world.shards) shard.steppedMs += ms;
  }

  /** Another server takes the place of the store's, with all that it had. */
  replaceStore(): void {
    play(this.#world, { kind: "restart", atMs: 0, shard: 0, keepsData: true, forMs: 500 });
  }

  /** A gateway and the store do not hear of each other for a while. */
  part(place: number, forMs: number): void {
    this.#world.network.part(place, 0, forMs);
  }

  /** All connections to the store break, with what is on its way over them, and nobody can connect for a while. */
  breakConnections(forMs: number): void {
    const { shards, gateways, time } = this.#world;
    for (const shard of shards) shard.isDown = true;
    for (const { link } of gateways.flatMap(({ threads }) => threads))
      for (const { number } of shards) link.reconnect(number);
    time.after(forMs, () => {
      for (const shard of shards) shard.isDown = false;
    });
  }

  /** The store forgets everything. */
  flushStore(): void {
    for (const shard of this.#world.shards) shard.flush();
  }

  /** Another process takes the place of a gateway. */
  restart(place: number): void {
    this.#world.gateways[place]?.end();
    this.#world.start(place);
  }

  async pass(ms: number): Promise<void> {
    await this.#world.time.runUntil(this.#world.time.nowMs + ms);
  }
}

export function admitted(decisions: readonly Decision[]): number {
  return decisions.filter(({ outcome }) => outcome === "admitted").length;
}
