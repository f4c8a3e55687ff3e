// Judges a configuration on trial. For a sample of clients, the policies before the trial go on counting by themselves, in a
// table of their own, and charge what they would have admitted. A request that was throttled and that they would have admitted
// was refused because of the trial. A request that no policy limits, before or on trial, is not judged. Says when too many
// were refused. No decision depends on the judge.
import type { Clock } from "../core/clock.ts";
import type { CounterKey } from "../core/counter-key.ts";
import { localReplies } from "../core/local-reply.ts";
import { isContinued, type Outcome, type Policy } from "../core/policy.ts";
import type { TrialTally } from "../core/reload.ts";
import type { RequestHead, Verdict } from "../core/request-head.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import { Ask, type LocalCounters, noKey } from "./counters.ts";
import { PolicyLimiter } from "./limiter.ts";
import { createCounters, holdsUntilEnd, type PolicyAsk } from "./policies.ts";
import { CounterTable, createTableMemory } from "./table/counter-table.ts";
import { minTableBytes } from "./table/layout.ts";
import { KeyPlacer, type SipHash } from "./table/sip-hash.ts";
import { type Inspection, TableView } from "./table/table-view.ts";

/** What threads that judge share. Can be sent to another thread. */
export interface JudgeMemory {
  readonly table: SharedArrayBuffer;
  readonly sample: SharedArrayBuffer;
}

const maxTableBytes = 8 * 1024 * 1024;

/** Of a key that is judged for the first time, so many admissions are taken over as they are, and the others as one. */
const mostTakenOver = 256;

/** `counterBytes`: of the counters of the gateway. The judge gets an eighth of that, and at most 8 MiB, on top of it. */
export function createJudgeMemory(counterBytes: number): JudgeMemory {
  const bytes = Math.min(maxTableBytes, Math.max(minTableBytes, Math.floor(counterBytes / 8)));
  return { table: createTableMemory(bytes), sample: JudgedSample.createMemory() };
}

interface JudgeOptions {
  readonly memory: JudgeMemory;
  /** The limits before the trial. */
  readonly before: {
    readonly policies: readonly Policy[];
    readonly enforcement: "on" | "shadow";
    readonly basePath: string;
    readonly tokensAreVerified: boolean;
  };
  /** The limiter on trial. Its slots are those in force, and those of policies that may come back. */
  readonly tried: PolicyLimiter;
  /** What is in force counts here. */
  readonly table: CounterTable;
  /** 16 bytes: that of the table. */
  readonly placeSecret: Uint8Array;
  readonly hash: SipHash;
  readonly clock: Clock;
  readonly runtimeRules: RulesInForce;
  /** How many gateways share the limits; each judges by its share. */
  readonly replicas: number;
}

/** A policy before the trial. */
interface JudgedPolicy {
  readonly policy: Policy;
  /** In the judge's table. */
  readonly counters: LocalCounters;
  /** What it had counted; null: nothing of it is left. */
  readonly counted: LocalCounters | null;
  /** When the period ends in which the trial began, by the wall clock; null: it is none of the calendar. */
  readonly periodEndMs: number | null;
}

export class Judge {
  readonly #sample: JudgedSample;
  readonly #table: CounterTable;
  readonly #view: TableView;
  readonly #placer: KeyPlacer;
  readonly #policies: readonly JudgedPolicy[];
  /** Null if no policy of the configuration before is judged; then that configuration limits nothing. */
  readonly #limiter: PolicyLimiter | null;
  readonly #tried: PolicyLimiter;
  readonly #sinceMs: number;
  readonly #ask = new Ask();
  #isOver = false;

  constructor({ memory, before, tried, table, placeSecret, hash, clock, runtimeRules, replicas }: JudgeOptions) {
    const { thread, isShared } = table;
    this.#sample = new JudgedSample(memory.sample);
    this.#table = new CounterTable(memory.table, { secret: placeSecret, thread, isShared });
    this.#view = new TableView(table);
    this.#placer = new KeyPlacer(placeSecret);
    this.#tried = tried;
    const nowMs = clock.monotonicMs();
    this.#sinceMs = this.#sample.begin(nowMs);
    const policies = before.policies.filter((policy) => !holdsUntilEnd(policy)).map((each) => shareOf(each, replicas));
    this.#policies = policies.map((policy, i) => {
      const slot = [...tried.slots, ...tried.kept].find((each) => isContinued(each.policy, policy))?.slot;
      const counted = slot === undefined ? null : createCounters(policy, this.#view, slot, clock);
      const periodEndMs = counted === null ? null : this.#inspect(counted, noKey, noKey, policy, nowMs).periodEndMs;
      return { policy, counters: createCounters(policy, this.#table, i, clock), counted, periodEndMs };
    });
    const own = policies.map((policy, slot) => ({ policy, slot }));
    const others = { clock, hash, table: this.#table, slots: own, store: null, runtimeRules };
    this.#limiter = policies.length === 0 ? null : new PolicyLimiter(policies, { ...before, ...others });
  }

  /** Must be called once for each verdict on a request. `nowMs`: when it was decided. */
  judge(head: RequestHead, verdict: Verdict, nowMs: number): void {
    const { parsed, decision } = verdict;
    if (this.#isOver || parsed.route === null || !isJudged(verdict)) return;
    const hash = this.#hashOf(parsed.counterKey);
    if (!this.#sample.mayHave(hash)) return;
    const before = this.#outcomeBefore(head, verdict, nowMs);
    // No limit can refuse it, so a flood of such requests would hide the harm, and fill the sample.
    if (before === "throttled" || (before !== "admitted" && !this.#isLimited(head, verdict))) return;
    this.#sample.count(hash, decision.outcome === "throttled", nowMs);
  }

  /** The trial is over: nothing is judged from now on. */
  end(): void {
    this.#isOver = true;
  }

  #hashOf(client: CounterKey): number {
    if (!client.isPlaced) this.#placer.place(client);
    return (client.place ^ client.tag) >>> 0;
  }

  /** Returns whether a policy on trial that is judged limits the request. */
  #isLimited(head: RequestHead, { parsed, decision, identity }: Verdict): boolean {
    if (decision.outcome !== "admitted") return decision.outcome === "throttled";
    if (!holdsUntilEnd(decision.policy)) return true;
    // Of several policies, the decision names the one with the least left.
    const asks = this.#tried.asksOf({ parsed, head, identity });
    return asks.some(({ policy }) => policy.mode === "enforce" && !holdsUntilEnd(policy));
  }

  /** Returns the outcome by the policies before, and charges them if they would have admitted the request. */
  #outcomeBefore(head: RequestHead, { parsed, decision, auth, identity }: Verdict, nowMs: number): Outcome {
    const limiter = this.#limiter;
    if (limiter === null) return "observed";
    const request = { parsed, head, identity, nowMs };
    for (const ask of limiter.asksOf(request)) this.#takeOver(ask, decision.outcome, nowMs);
    // Without a store, no decision is a promise.
    const first = limiter.ask({ ...request, decision: null }, "anonymous");
    if (first instanceof Promise) return "throttled";
    // The subject of a token that was not checked is unknown.
    if (auth === "skipped" || first.outcome === "throttled") return first.outcome;
    const isRefused = auth !== "accepted";
    if (isRefused && !limiter.limitsOthers) return first.outcome;
    const whole = limiter.ask({ ...request, decision: first }, isRefused ? "refused" : "identified");
    return whole instanceof Promise ? "throttled" : whole.outcome;
  }

  /** Takes over what was counted of a key before the trial, unless the judge counts it already. */
  #takeOver({ row, key, client, limit }: PolicyAsk, outcome: Outcome, nowMs: number): void {
    const { policy, counters, counted, periodEndMs } = this.#policies[row.slot] as JudgedPolicy;
    const ask = this.#ask;
    const table = this.#table;
    Object.assign(ask, { key, client, limit });
    counters.select(ask);
    if (counted === null || table.locks.within(() => table.find(ask.cursor))) return;
    const found = this.#inspect(counted, key, client, policy, nowMs);
    const isOldPeriod = found.periodEndMs === periodEndMs;
    // Of a period nobody knows what was counted when. The request itself was charged already.
    const inPeriod = isOldPeriod ? Math.max(0, found.units - (outcome === "admitted" ? policy.cost : 0)) : 0;
    const taken =
      policy.rate.kind === "sliding" ? this.#before(found, policy.rate.windowMs, nowMs) : [[nowMs, inPeriod]];
    for (const [atMs = 0, units = 0] of taken) {
      if (units === 0) continue;
      ask.units = units;
      counters.select(ask);
      table.locks.within(() => {
        counters.ask(ask, atMs);
        counters.charge(ask);
      });
    }
  }

  /** What was admitted before the trial, and still counts, the oldest first. */
  #before({ units, admissions }: Inspection, windowMs: number, nowMs: number): (readonly [number, number])[] {
    const listed = admissions.reduce((sum, each) => sum + each.units, 0);
    const isBefore = (atMs: number): boolean => atMs < this.#sinceMs && nowMs - atMs < windowMs;
    const taken = admissions.filter(({ atMs }) => isBefore(atMs)).map((each) => [each.atMs, each.units] as const);
    const restMs = this.#sinceMs - 1;
    return units > listed && isBefore(restMs) ? [...taken, [restMs, units - listed] as const] : taken;
  }

  #inspect(counted: LocalCounters, key: CounterKey, client: CounterKey, policy: Policy, nowMs: number): Inspection {
    const ask = Object.assign(new Ask(), { key, client, limit: policy.limit, units: policy.cost });
    return counted.inspect(ask, nowMs, this.#view, mostTakenOver);
  }
}

/** Whether a limit that can be judged has decided. What depends on the end of an exchange, the judge does not know. */
function isJudged({ decision, localReply, blockedBy }: Verdict): boolean {
  if (blockedBy !== undefined || localReply === localReplies.tooManyRefusals) return false;
  // An answered preflight: no limit was asked.
  if (localReply?.reason === null) return false;
  if (decision.outcome === "throttled") return !holdsUntilEnd(decision.policy);
  return decision.outcome !== "unavailable";
}

function shareOf(policy: Policy, replicas: number): Policy {
  const share = (limit: number): number => Math.max(policy.cost, Math.floor(limit / replicas));
  const overrides = policy.overrides.map((each) => ({ ...each, limit: share(each.limit) }));
  return replicas === 1 ? policy : { ...policy, limit: share(policy.limit), overrides };
}

/** With so many clients, half of them are judged no longer. */
export const mostClients = 4096;

/** Twice as many as can be added: `mostClients`, and with each of 31 halvings half as many. */
const places = 2 ** 17;
const placesAt = 8;
/** A client that finds no place after so many is not judged. */
const mostLooked = 64;
const lastLevel = 31;

/** At most so many requests of each client count in a period. */
export const mostOfClient = 100;
export const periodMs = 10_000;

/** Where the numbers are, in words. The instant of the begin has two. */
const at = { since: 0, level: 2, clients: 3, judged: 4, refused: 5 } as const;

/**
 * Which clients are judged while a configuration is on trial, and what came of their requests, in memory that threads
 * share. At first all clients are judged. Each time there are too many, those stay whose hash is in the lower half of
 * what it was: the sample does not depend on how much a client asks, and nobody outside of the process can choose to be
 * in it. A client with more than `mostOfClient` requests in a period counts as that many, with the share of them that was
 * refused, so that one client's flood cannot outweigh what happens to the others.
 */
export class JudgedSample {
  readonly #w: Int32Array;
  readonly #since: Float64Array;

  /** `memory`: made by `createMemory`. */
  constructor(memory: SharedArrayBuffer) {
    this.#w = new Int32Array(memory);
    this.#since = new Float64Array(memory, 0, 1);
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((placesAt + 2 * places) * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The monotonic instant at which the first thread began to judge. */
  begin(nowMs: number): number {
    if (this.#since[0] === 0) this.#since[0] = nowMs;
    return this.#since[0] as number;
  }

  /** Both start again at 0 after 2^32. */
  get tally(): TrialTally {
    const count = (word: number): number => Atomics.load(this.#w, word) >>> 0;
    return { judged: count(at.judged), refused: count(at.refused) };
  }

  /** Returns whether a client may be judged. `hash`: 32 bits of a keyed hash. */
  mayHave(hash: number): boolean {
    return isIn(hash, Atomics.load(this.#w, at.level));
  }

  /** Counts a request of a client that the policies before would have admitted. Adds the client if it is new. */
  count(hash: number, isRefused: boolean, nowMs: number): void {
    const w = this.#w;
    const place = this.#placeOf(hash);
    // Behind the places, each has a word: 8 bits for the period, 12 for all requests in it, and 12 for the refused ones.
    const period = Math.floor(nowMs / periodMs) & 0xff;
    for (let isCounted = place === 0; !isCounted; ) {
      const word = Atomics.load(w, place + places);
      const isSame = (word & 0xff) === period;
      const [all, refused] = isSame ? [(word >>> 8) & 0xfff, word >>> 20] : [0, 0];
      const halved = all === 0xfff ? 1 : 0;
      const [newAll, newRefused] = [(all >> halved) + 1, (refused >> halved) + Number(isRefused)];
      const newWord = (newRefused << 20) | (newAll << 8) | period;
      isCounted = Atomics.compareExchange(w, place + places, word, newWord) === word;
      if (!isCounted) continue;
      Atomics.add(w, at.judged, Math.min(mostOfClient, newAll) - Math.min(mostOfClient, all));
      Atomics.add(w, at.refused, weighed(newRefused, newAll) - weighed(refused, all));
    }
  }

  /** Returns the place of a client; 0 if it is not judged. */
  #placeOf(hash: number): number {
    const w = this.#w;
    const level = Atomics.load(w, at.level);
    if (!isIn(hash, level)) return 0;
    const entry = hash === 0 ? 1 : hash | 0;
    for (let looked = 0; looked < mostLooked; looked += 1) {
      const place = placesAt + ((hash + looked) & (places - 1));
      const found = Atomics.compareExchange(w, place, 0, entry);
      if (found === entry) return place;
      if (found !== 0) continue;
      if (Atomics.add(w, at.clients, 1) + 1 >= mostClients) this.#halve(level);
      return place;
    }
    return 0;
  }

  /** Takes a fifth of a millisecond. */
  #halve(level: number): void {
    const w = this.#w;
    if (level === lastLevel || Atomics.compareExchange(w, at.level, level, level + 1) !== level) return;
    let clients = 0;
    for (let i = placesAt; i < placesAt + places; i += 1) {
      const entry = w[i] as number;
      if (entry !== 0 && isIn(entry, level + 1)) clients += 1;
    }
    Atomics.store(w, at.clients, clients);
  }
}

function weighed(refused: number, all: number): number {
  return all <= mostOfClient ? refused : Math.floor((refused * mostOfClient) / all);
}

function isIn(hash: number, level: number): boolean {
  return level === 0 || hash >>> (32 - level) === 0;
}

/** Fewer refused requests are no reason. */
const fewestRefused = 20;
const lastMs = 10_000;

interface Sample extends TrialTally {
  readonly atMs: number;
}

/**
 * Decides by what was counted whether a configuration on trial refuses too much: over the whole trial, or over the last
 * seconds, so that a mistake is noticed after a long quiet trial too.
 */
export class TrialJudgement {
  readonly #refusedShare: number;
  /** Counts that start again at 0 after 2^32. */
  readonly #read: () => TrialTally;
  #counted: TrialTally;
  #total: TrialTally = { judged: 0, refused: 0 };
  /** The totals of the last seconds, and the one before them. */
  readonly #samples: Sample[] = [];

  constructor(refusedShare: number, read: () => TrialTally) {
    this.#refusedShare = refusedShare;
    this.#read = read;
    this.#counted = read();
  }

  /** Since the trial began. */
  get total(): TrialTally {
    const now = this.#read();
    this.#total = sum(this.#total, since(this.#counted, now));
    this.#counted = now;
    return this.#total;
  }

  /** Returns whether too many requests were refused. Must be called more often than once in the last seconds. */
  isRefused(nowMs: number): boolean {
    const { total } = this;
    const samples = this.#samples;
    while (samples.length > 1 && nowMs - (samples[1] as Sample).atMs >= lastMs) samples.shift();
    const lately = samples[0] === undefined ? total : difference(samples[0], total);
    samples.push({ ...total, atMs: nowMs });
    return this.#exceeds(total) || this.#exceeds(lately);
  }

  #exceeds({ judged, refused }: TrialTally): boolean {
    return refused >= fewestRefused && refused > this.#refusedShare * judged;
  }
}

function sum(a: TrialTally, b: TrialTally): TrialTally {
  return { judged: a.judged + b.judged, refused: a.refused + b.refused };
}

function difference(before: TrialTally, now: TrialTally): TrialTally {
  return { judged: now.judged - before.judged, refused: now.refused - before.refused };
}

function since(before: TrialTally, now: TrialTally): TrialTally {
  const { judged, refused } = difference(before, now);
  return { judged: judged | 0, refused: refused | 0 };
}
