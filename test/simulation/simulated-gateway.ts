// A gateway: one process with a clock of its own, a table, and threads that each have a limiter and a connection to the
// store. It may pause, while its clock runs on, and end at any instant. A start after an end is another gateway.
import type { Clock } from "../../src/core/clock.ts";
import type { ForgivenKey, Rule } from "../../src/core/rules.ts";
import type { StateChange, Timers } from "../../src/core/store-link.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import type { Grant, Want } from "../../src/limits/store/call-batch.ts";
import { gatewayLength, threadLength } from "../../src/limits/store/script-call.ts";
import { SharedRules } from "../../src/limits/store/shared-rules.ts";
import { Store } from "../../src/limits/store/store.ts";
import { CounterTable } from "../../src/limits/table/counter-table.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { clockOf } from "../support/clock.ts";
import type { Chance } from "./chance.ts";
import type { Network } from "./network.ts";
import type { GatewayPlan, Plan } from "./plan.ts";
import { type Process, SimulatedLink } from "./simulated-link.ts";
import { beginWallMs } from "./simulated-store.ts";
import type { TableMemory } from "./table-memory.ts";
import type { VirtualTime } from "./virtual-time.ts";

export interface GatewayParts {
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly network: Network;
  readonly chance: Chance;
  readonly memory: TableMemory;
  /** It forgets the counts of a client. */
  onForgiven(gateway: SimulatedGateway, address: string, seq: number): void;
  onChange(gateway: SimulatedGateway, thread: number, change: StateChange): void;
  /** A request was told what came of what it had wanted since an instant. */
  onTold(wants: readonly Want[], grants: readonly Grant[], sinceMs: number): void;
}

export interface Thread {
  limiter: PolicyLimiter;
  readonly shared: Store;
  readonly link: SimulatedLink;
  /** How often the thread had decided without the store when that was last looked at, and when it last did. */
  aloneSeen: number;
  aloneMs: number;
  /** What requests that are asked now are told; undefined: not yet. */
  readonly asked: { grants?: readonly Grant[] }[];
}

export class SimulatedGateway implements Process {
  /** The place, which every start there has. */
  readonly gateway: number;
  /** Of this start. */
  readonly id: string;
  readonly clock: Clock;
  readonly threads: readonly Thread[];
  /** What it shares with the others, and the rules that hold here. Null if the plan has neither. */
  readonly shared: SharedRules | null;
  readonly rules = new Map<string, Rule>();
  readonly rate: number;
  isDead = false;
  /** The begin and the end of the pause that it is in, or was in last. */
  pausedFromMs = 0;
  pausedUntilMs = 0;
  /** The end of the last pause. */
  resumedMs = 0;
  #timersAreFirst = false;
  readonly #parts: GatewayParts;
  readonly #time: VirtualTime;
  #rulesLink: SimulatedLink | null = null;
  /** Resolves when all threads have forgotten what they were told to forget. */
  #forgotten: Promise<void> = Promise.resolve();

  constructor(gateway: number, plan: GatewayPlan, parts: GatewayParts) {
    const { time, chance, memory } = parts;
    this.gateway = gateway;
    this.#parts = parts;
    this.#time = time;
    this.rate = plan.rate;
    this.id = randomText(chance, gatewayLength);
    const beginMs = time.nowMs;
    const offsetMs = chance.between(1000, 100_000_000);
    this.clock = clockOf(
      () => offsetMs + (time.nowMs - beginMs) * plan.rate,
      () => beginWallMs + plan.skewMs + time.nowMs,
    );
    const block = memory.take();
    this.shared = parts.plan.people.length === 0 ? null : this.#shareRules();
    this.threads = Array.from({ length: plan.threads }, (_, i) => this.#createThread(i, block, plan.threads > 1));
  }

  enter(run: () => void): void {
    this.#enter(run, 1);
  }

  pause(forMs: number): void {
    if (!this.isPaused) this.pausedFromMs = this.#time.nowMs;
    this.pausedUntilMs = Math.max(this.pausedUntilMs, this.#time.nowMs + forMs);
    this.resumedMs = this.pausedUntilMs;
    this.#timersAreFirst = this.#parts.chance.happens(0.5);
  }

  get isPaused(): boolean {
    return this.pausedUntilMs > this.#time.nowMs;
  }

  end(): void {
    this.isDead = true;
    for (const { link } of this.threads) link.abandon();
    this.#rulesLink?.abandon();
  }

  #enter(run: () => void, rank: number): void {
    if (this.isDead) return;
    if (this.isPaused) {
      const later = this.#timersAreFirst ? rank : 1;
      this.#time.at(this.pausedUntilMs, () => this.#enter(run, rank), later);
      return;
    }
    run();
  }

  #createThread(index: number, block: SharedArrayBuffer, isShared: boolean): Thread {
    const { plan, network, chance } = this.#parts;
    const { clock } = this;
    const table = new CounterTable(block, { secret: placeSecret, thread: index + 1, isShared });
    const link = new SimulatedLink(network, this);
    const rules = this.shared;
    const shared = new Store({
      ...{ link, clock, table, settings: plan.settings, timers: this.#timers() },
      gateway: this.id,
      thread: randomText(chance, threadLength),
      secret: placeSecret,
      onSecret: () => {},
      onChange: (change) => this.#parts.onChange(this, index, change),
      onIdentity: () => {},
      onAnswered: () => {},
      onWaited: () => {},
      onGone: () => {},
      ...(rules !== null && { readForgiven: () => rules.readNow().then(() => this.#forgotten) }),
    });
    const limiter = new PolicyLimiter(plan.policies, { clock, table, store: shared, hash: new SipHash(placeSecret) });
    const asked: Thread["asked"] = [];
    this.#watchAnswers(shared, asked);
    shared.open();
    return { limiter, shared, link, aloneSeen: 0, aloneMs: -1, asked };
  }

  #watchAnswers(shared: Store, asked: Thread["asked"]): void {
    const ask = shared.ask.bind(shared);
    shared.ask = (wants, sinceMs) => {
      const askedMs = this.#time.nowMs;
      const grants = ask(wants, sinceMs);
      const one: Thread["asked"][number] = {};
      asked.push(one);
      // Whoever has asked hears of a failure.
      grants.then(
        (of) => {
          one.grants = of;
          this.#parts.onTold(wants, of, askedMs);
        },
        () => {},
      );
      return grants;
    };
  }

  #shareRules(): SharedRules {
    const { network, chance, plan } = this.#parts;
    this.#rulesLink = new SimulatedLink(network, this, "rules");
    const shared = new SharedRules({
      ...{ link: this.#rulesLink, clock: this.clock, timers: this.#timers(), prefix: plan.settings.prefix },
      origin: randomText(chance, 12),
      onRules: ({ set, removed }, all) => {
        if (all) this.rules.clear();
        for (const id of removed) this.rules.delete(id);
        for (const rule of set) this.rules.set(rule.id, rule);
      },
      onForgiven: (forgiven, place) => {
        this.#forgotten = this.#forgotten.then(async () => {
          for (const { name, seq } of forgiven) await this.#forget(name, seq);
          for (const thread of this.threads) thread.shared.forgivenUntil(place);
        });
      },
      onTakenBack: () => {},
      onState: () => {},
    });
    shared.open();
    return shared;
  }

  /** The first thread forgets what the table has counted, and each what it holds. */
  async #forget(name: ForgivenKey, seq: number): Promise<void> {
    this.#parts.onForgiven(this, name.value, seq);
    const [first, ...others] = this.threads;
    const context = { ipv6Prefix: 64, listed: null, routes: [] };
    await first?.limiter.forgive(name, context, seq);
    for (const { limiter } of others) limiter.forgiveHeld(name, context, seq);
  }

  #timers(): Timers {
    const time = this.#time;
    return {
      after: (ms, run) => {
        const event = time.after(Math.max(0, ms) / this.rate, () => {
          this.#enter(() => {
            if (!isCancelled) run();
          }, 0);
        });
        let isCancelled = false;
        const cancel = (): void => {
          isCancelled = true;
          event.run = null;
        };
        return { cancel };
      },
      // The rest of the turn takes a little.
      endOfTurn: (run) => {
        const lastsMs = this.#parts.chance.one([0, 0, 0.1, 0.5]);
        time.after(lastsMs, () => this.#enter(run, 1));
      },
    };
  }
}

const placeSecret = Buffer.alloc(16, 9);
const letters = "0123456789abcdefghijklmnopqrstuvwxyz";

function randomText(chance: Chance, length: number): string {
  let text = "";
  while (text.length < length) text += letters[chance.whole(0, letters.length - 1)];
  return text;
}
