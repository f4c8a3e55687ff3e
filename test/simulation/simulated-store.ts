// The servers of the store. A shard has a place, a wall clock of its own, and data that it may lose: in a failover the last
// writes, in a restart everything. Its script is the model that a differential test holds against a real Redis.
import type { Policy } from "../../src/core/policy.ts";
import type { CallFailureKind } from "../../src/core/store-link.ts";
import type { CounterItem, Told } from "../../src/limits/store/script-call.ts";
import { Judgements } from "./judgements.ts";
import { RulesModel } from "./rules-model.ts";
import { ScriptModel } from "./script-model.ts";
import { readCall, writeAnswer } from "./script-wire.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** Unix milliseconds at the beginning of a run: 57 s after a whole minute, so that calendar quotas see a border. */
export const beginWallMs = 1_700_000_000_000 - (1_700_000_000_000 % 3_600_000) + 57_000;

/** Of a text in the protocol; of EVALSHA with its digest; of what is answered about a counter. */
const [overhead, callOverhead, answerBytes] = [8, 80, 50];

/** For so long it is known what calls have left in counters. */
const longestMemoryMs = 75_000;

export interface ShardWatch {
  forgets(key: string): void;
  told(item: CounterItem, told: Told): void;
  /** A rule or another entry of the shared rules; `content`: "" if it was removed. */
  wrote(name: string, revision: number, content: string): void;
}

export class SimulatedShard {
  readonly number: number;
  readonly rate: number;
  model: ScriptModel;
  rules: RulesModel;
  /** What is to be known of the counters that are forgiven, of what is told that counts, and of what is written of rules. */
  watch: ShardWatch | null = null;
  /** Something is told that counts. */
  told: (item: CounterItem) => void = () => {};
  /** Checks what is answered. */
  readonly judgements: Judgements;
  /** Of this run of the server and its data. */
  epoch: string;
  isDown = false;
  /** Writes the timeline. */
  note: ((text: string) => void) | null = null;
  /** What calls are answered instead of a reply; null: they are served. */
  failing: CallFailureKind | null = null;
  evictedKeys = 0;
  /** Set forward or back. */
  steppedMs = 0;
  /** The highest reading so far. */
  highestMs = 0;
  readonly #time: VirtualTime;
  readonly #skewMs: number;
  #runs = 0;
  #copy: ScriptModel | null = null;
  /** What calls have left in counters lately. */
  readonly #stored = new Map<string, { readonly atMs: number; readonly units: number }[]>();
  #copyOfRules: RulesModel | null = null;

  /** `rate`: of its clock; 1 is right. */
  constructor(number: number, time: VirtualTime, rate: number, skewMs: number) {
    this.number = number;
    this.#time = time;
    this.judgements = new Judgements(time);
    this.rate = rate;
    this.#skewMs = skewMs;
    this.epoch = `run 0 of shard ${number}`;
    this.model = new ScriptModel(this.#clockUs);
    this.rules = new RulesModel(this.#clockUs);
  }

  /** A call of the script of rules. */
  callRules(args: readonly string[]): unknown {
    this.rules.onWrite = (name, revision, content) => this.watch?.wrote(name, revision, content);
    const answer = this.rules.call(args);
    this.note?.(`shard ${this.number}: rules ${JSON.stringify(args)} → ${JSON.stringify(answer)}`);
    return answer;
  }

  /** Calls about counters, and what they and their answers take on the wire, about. */
  counterCalls = 0;
  counterBytes = 0;

  /** What its clock would show without any step: what windows are measured by. */
  steadyMs(atMs = this.#time.nowMs): number {
    return atMs * this.rate;
  }

  /** What its clock shows. */
  wallMs(): number {
    const wallMs = beginWallMs + this.#skewMs + this.steppedMs + this.steadyMs();
    this.highestMs = Math.max(this.highestMs, wallMs);
    return wallMs;
  }

  /** Units that count, by the gateways that they were granted to. `storeKey`: of a calendar, without its period. */
  unitsByGateway({
    storeKey,
    policy,
  }: {
    readonly storeKey: string;
    readonly policy: Policy;
  }): ReadonlyMap<string, number> {
    return this.model.unitsByGateway(this.keyNow(storeKey, policy));
  }

  /** Units that count now. */
  unitsNow({ storeKey, policy }: { readonly storeKey: string; readonly policy: Policy }): number {
    const key = this.keyNow(storeKey, policy);
    // What a gateway of a calendar does not give back in time is spent.
    return policy.rate.kind === "calendar" ? this.model.unitsOf(key) : this.model.unitsAt(key, this.#clockUs());
  }

  /** The key of a counter now: that of a calendar names its period. */
  keyNow(storeKey: string, { rate }: Policy): string {
    if (rate.kind !== "calendar") return storeKey;
    return `${storeKey}/${(Math.floor(this.wallMs() / 60_000) + 1) * 60}`;
  }

  call(keys: readonly string[], args: readonly string[]): unknown {
    const { items, requests } = readCall(keys, args);
    if (items.some(({ item }) => item !== "gateways" && item !== "secret")) {
      const length = (list: readonly string[]): number => list.reduce((sum, each) => sum + each.length + overhead, 0);
      this.counterCalls += 1;
      this.counterBytes += callOverhead + length(keys) + length(args) + answerBytes * items.length;
    }
    this.model.onForget = (key) => this.watch?.forgets(key);
    this.model.onTold = (item, told) => {
      this.watch?.told(item, told);
      this.told(item);
    };
    const answer = this.model.call(items, requests);
    this.judgements.called(items, requests, answer, this.model);
    for (const item of items) if ("id" in item) this.#noteStored(item.key);
    if (this.note !== null) {
      for (const [i, item] of items.entries()) {
        this.note(`shard ${this.number}: ${JSON.stringify(item)} → ${JSON.stringify(answer.items[i])}`);
      }
      for (const [i, request] of requests.entries()) {
        this.note(`shard ${this.number}: ${JSON.stringify(request)} → ${answer.requests[i]}`);
      }
    }
    return writeAnswer(answer);
  }

  /** The most units that a call has left in a counter since an instant. */
  mostStored({ storeKey, policy }: { readonly storeKey: string; readonly policy: Policy }, sinceMs: number): number {
    const seen = this.#stored.get(this.keyNow(storeKey, policy)) ?? [];
    return Math.max(0, ...seen.filter(({ atMs }) => atMs >= sinceMs).map(({ units }) => units));
  }

  #noteStored(key: string): void {
    const atMs = this.#time.nowMs;
    const seen = (this.#stored.get(key) ?? []).filter((each) => each.atMs > atMs - longestMemoryMs);
    seen.push({ atMs, units: this.model.unitsOf(key) });
    this.#stored.set(key, seen);
  }

  /** What a replica has now. */
  replicate(): void {
    this.#copy = this.model.copy();
    this.#copyOfRules = this.rules.copy();
  }

  /** The replica becomes the primary. */
  promote(): void {
    if (this.#copy !== null) this.model = this.#copy;
    if (this.#copyOfRules !== null) this.rules = this.#copyOfRules;
    this.#copy = null;
    this.#copyOfRules = null;
    this.#newRun();
  }

  /** Starts anew; `keepsData`: from what it had saved, which is everything. */
  restart(keepsData: boolean): void {
    if (!keepsData) {
      this.model = new ScriptModel(this.#clockUs);
      this.rules = new RulesModel(this.#clockUs);
    }
    this.#newRun();
  }

  flush(): void {
    this.model.flushAll();
    this.rules.flushAll();
  }

  readonly #clockUs = (): number => Math.floor(this.wallMs() * 1000);

  #newRun(): void {
    this.#runs += 1;
    this.epoch = `run ${this.#runs} of shard ${this.number}`;
  }
}
