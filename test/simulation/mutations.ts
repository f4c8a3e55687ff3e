// Safeguards that are taken out, to see that the simulation misses each of them. A mutation replaces a text of a source
// while it is loaded; nothing of it is in the code that runs otherwise.
import { registerHooks } from "node:module";
import type { Policy } from "../../src/core/policy.ts";
import { type Replacement, replaceOnce } from "../support/replacement.ts";
import type { Failure, Plan } from "./plan.ts";

export interface Mutation {
  readonly name: string;
  /** A seed whose run shows it. `npm test` runs them all without the mutations. */
  readonly seed: number;
  /** Whether a run can show it: the others need not be tried. */
  readonly concerns: (plan: Plan) => boolean;
  readonly replacements: readonly Replacement[];
}

function plays(...kinds: readonly Failure["kind"][]): (plan: Plan) => boolean {
  return ({ failures }) => failures.some(({ kind }) => kinds.includes(kind));
}

function leasesAhead({ policies }: Plan): boolean {
  return policies.some(({ limit, rate }) => limit >= 1000 && rate.kind === "sliding");
}

function holds({ rate, chargeStatuses }: Policy): boolean {
  return rate.kind === "concurrency" || chargeStatuses !== null;
}

function forgives({ people }: Plan): boolean {
  return people.some(({ does }) => does === "forgive");
}

function sharesRules({ people }: Plan): boolean {
  return people.length > 0;
}

const store = "src/limits/store/store.ts";
const rules = "src/limits/store/shared-rules.ts";
const shard = "src/limits/store/shard.ts";
const sharedKey = "src/limits/store/shared-key.ts";
const storeCounters = "src/limits/store/store-counters.ts";
const batch = "src/limits/store/call-batch.ts";
const telling = "src/limits/store/telling.ts";
const policyAsks = "src/limits/policies.ts";
const limiter = "src/limits/limiter.ts";
// Two safeguards are not here, since taking them out only makes units count for too long, or is made up for by another
// one: that a report never raises a score, and that the clock of a counter does not go back, whose steps forward are
// watched. The script's own tests fail without them: script.test.ts without either, script-scenarios.test.ts without the
// second.
const model = "test/simulation/script-model.ts";
const rulesModel = "test/simulation/rules-model.ts";
const gateway = "test/simulation/simulated-gateway.ts";

export const mutations: readonly Mutation[] = [
  {
    name: "a lease lasts from its answer on",
    seed: 404,
    concerns: leasesAhead,
    replacements: [
      {
        file: store,
        from: "sentMs + rules.spendMs / (1 + drift)",
        to: "nowMs + rules.spendMs / (1 + drift)",
      },
    ],
  },
  {
    name: "ids from a counter",
    seed: 65,
    concerns: plays("crash"),
    replacements: [
      {
        file: gateway,
        from: "this.id = randomText(chance, gatewayLength);",
        to: "this.id = String(gateway).padEnd(gatewayLength, '-');",
      },
      {
        file: gateway,
        from: "thread: randomText(chance, threadLength)",
        to: "thread: String(index).padEnd(threadLength, '-')",
      },
    ],
  },
  {
    name: "no margin for drift",
    seed: 3_327,
    concerns: leasesAhead,
    replacements: [{ file: store, from: "sentMs + rules.spendMs / (1 + drift)", to: "sentMs + rules.spendMs" }],
  },
  {
    name: "epoch ignored",
    seed: 954,
    concerns: plays("failover", "restart"),
    replacements: [{ file: shard, from: "if (identity.epoch !== before.epoch) {", to: "if (identity.epoch === '') {" }],
  },
  {
    name: "steps of the store's clock not watched",
    seed: 254,
    concerns: plays("step"),
    replacements: [{ file: shard, from: 'if (step === "forward")', to: 'if (step === "never")' }],
  },
  {
    name: "told nothing",
    seed: 32,
    concerns: plays("flush", "restart", "failover", "part", "cut"),
    replacements: [{ file: model, from: "if (this.#told !== null) this.#tell(this.#told);", to: "" }],
  },
  {
    name: "the clock read before waiting",
    seed: 9,
    concerns: () => true,
    replacements: [
      {
        file: limiter,
        from: "refusing = this.#put(asks, chargedAt(this.set, nowMs));",
        to: "refusing = this.#put(asks, nowMs);",
      },
    ],
  },
  {
    name: "units given back twice",
    seed: 9,
    concerns: leasesAhead,
    replacements: [
      {
        file: sharedKey,
        from: "return taken.map(",
        to: "return [...taken, ...taken].map(",
      },
      {
        file: model,
        from: "if (reported === undefined || endsUs >= reported.endsUs) return;",
        to: "if (reported === undefined) { this.counter.units -= granted - spent; return; }",
      },
    ],
  },
  {
    name: "told what counts in another period",
    seed: 63_129,
    concerns: ({ policies, shards }) => shards.length > 1 && policies.some(({ rate }) => rate.kind === "calendar"),
    replacements: [
      {
        file: "src/limits/store/items.ts",
        from: "return periodEndMs * 1000 === rules.untilUs;",
        to: "return periodEndMs * 1000 !== rules.untilUs || true;",
      },
      // With the other safeguard, since a shard is told nothing of a period that began after it was told.
      {
        file: sharedKey,
        from: "(this.policy.periods.get(shard)?.beganMs ?? earlierMs) <= earlierMs",
        to: "shard >= -1",
      },
    ],
  },
  {
    // With the other safeguard, since a gateway that has read the log tells nothing that the mark would make void.
    name: "told ignores the mark",
    seed: 139,
    concerns: (plan) => forgives(plan) && plays("part", "cut", "late", "pause", "restart", "failover")(plan),
    replacements: [
      {
        file: model,
        from: "return (this.#marks.get(markKey) ?? 0) > forgivenUntil;",
        to: "return false && forgivenUntil > 0 && markKey !== '';",
      },
      {
        file: telling,
        from: "void this.#readForgiven()\n      .then(() => this.#forgets",
        to: "void Promise.resolve()\n      .then(() => this.#forgets",
      },
    ],
  },
  {
    name: "the mark is not set",
    seed: 0,
    concerns: forgives,
    replacements: [{ file: model, from: "this.#marks.set(item.markKey, item.seq);", to: "" }],
  },
  {
    name: "forgotten before it is in the log",
    seed: 0,
    concerns: forgives,
    replacements: [
      {
        file: rules,
        from: "const result = await this.#write(entry);",
        to: "this.#options.onForgiven([{ name, seq: Math.floor(this.#wallMs * 1000) }], this.#version); const result = await this.#write(entry);",
      },
    ],
  },
  {
    name: "what ended is forgotten",
    seed: 1_846,
    concerns: sharesRules,
    replacements: [
      {
        file: rules,
        from: "if (!this.#isOverwritten(entry)) this.#takeEntry(",
        to: "if (!this.#written.has(entry.name) && entry.endsMs > this.#wallMs) this.#takeEntry(",
      },
    ],
  },
  {
    name: "a store that forgot is not told the rules again",
    seed: 111,
    concerns: (plan) => sharesRules(plan) && plays("flush", "restart")(plan),
    replacements: [
      {
        file: rules,
        from: 'if (mine.revision > floor) mine.untold = "lost";',
        to: 'if (mine.revision < floor) mine.untold = "lost";',
      },
    ],
  },
  {
    name: "a write of this gateway that the store has lost is taken for read",
    seed: 41_372,
    concerns: (plan) => sharesRules(plan) && plays("restart", "failover")(plan),
    replacements: [
      {
        file: rules,
        from: 'if (operation.operation === "write") this.#mustReadAll = true;',
        to: "",
      },
    ],
  },
  {
    name: "what was written while pages were read is taken for read",
    seed: 1_919,
    concerns: sharesRules,
    replacements: [{ file: rules, from: "first ??= answer;", to: "first = answer;" }],
  },
  {
    name: "a rule that was removed without the store is not known to have been removed",
    seed: 101_737,
    concerns: (plan) => sharesRules(plan) && plays("restart", "flush", "failover")(plan),
    replacements: [{ file: rulesModel, from: "there + Number(proposed) === 0", to: "there === 0" }],
  },
  {
    name: "the wait of a policy that was not asked is not told",
    seed: 320_290,
    concerns: ({ policies, clients, failures }) => {
      const isCharged = policies.some(({ chargeStatuses }) => chargeStatuses !== null);
      return (
        failures.length === 0 && policies.length > 1 && isCharged && clients.every(({ kind }) => kind === "waiter")
      );
    },
    replacements: [
      {
        file: limiter,
        from: "if (refusing === null || this.set.store === null) return refusing;",
        to: "if (refusing !== undefined) return refusing;",
      },
    ],
  },
  {
    name: "units that others were granted are taken for spent",
    seed: 95_060,
    concerns: ({ policies, shards, failures }) =>
      failures.length === 0 && shards.length > 1 && policies.some(({ key }) => key.length === 0),
    replacements: [
      {
        file: sharedKey,
        from: "    this.free = free;\n    this.resetMs",
        to: "    leasedUs = -1;\n    this.free = free;\n    this.resetMs",
      },
    ],
  },
  {
    name: "a refused request takes of the keys that have room",
    seed: 4,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [
      {
        file: model,
        from: "if (isGranted) for (const { turn, units } of turns) if (turn instanceof Turn) turn.take(units, place);",
        to: "for (const { turn, units } of turns) if (turn instanceof Turn && turn.hasRoom(units)) turn.take(units, place);",
      },
    ],
  },
  {
    name: "one key that has room is enough",
    seed: 4,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [{ file: model, from: "turns.every(({ turn, units })", to: "turns.some(({ turn, units })" }],
  },
  {
    name: "a grant that is over is spent all the same",
    seed: 1_640,
    concerns: plays("pause"),
    replacements: [
      {
        file: storeCounters,
        from: 'const isOver = grant?.kind === "granted" && (',
        to: 'const isOver = grant?.kind === "granted" && nowMs < 0 && (',
      },
    ],
  },
  {
    name: "a refused request releases nothing",
    seed: 20,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [
      { file: limiter, from: "if (this.set.store !== null) for (const ask of asks) ask.shared?.release();", to: "" },
    ],
  },
  {
    name: "two requests take the same units that were leased ahead",
    seed: 4,
    concerns: leasesAhead,
    replacements: [{ file: sharedKey, from: "lease.left -= units;", to: "" }],
  },
  {
    name: "what is granted too late is reserved for nobody",
    seed: 8,
    concerns: plays("late", "pause", "part"),
    replacements: [{ file: batch, from: "if (isWaiting) reserve(lease, units);", to: "reserve(lease, units);" }],
  },
  {
    name: "a shadow policy is judged with the others",
    seed: 63,
    concerns: ({ policies }) => policies.some((each) => each.mode === "shadow" && holds(each)),
    replacements: [{ file: policyAsks, from: "if (row.isShadow) groups.push([shared]);\n    else ", to: "" }],
  },
  {
    name: "a policy that had room refuses with the others",
    seed: 4,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [
      {
        file: batch,
        from: "hasRefused(need.units) ? refused : spared",
        to: "hasRefused(need.units) ? refused : refused",
      },
    ],
  },
  {
    name: "a second wait is as long as the first",
    seed: 305,
    concerns: () => true,
    replacements: [{ file: policyAsks, from: "attempt === 1 ? null : sinceMs", to: "null" }],
  },
  {
    name: "what was spent stays reserved",
    seed: 0,
    concerns: () => true,
    replacements: [
      { file: sharedKey, from: "lease.reserved -= units;\n    lease.spentMs = nowMs;", to: "lease.spentMs = nowMs;" },
    ],
  },
  {
    name: "the leases of requests for several keys have the ids of others",
    seed: 80,
    concerns: ({ policies }) => policies.length > 1 && policies.some(holds),
    replacements: [
      {
        file: batch,
        from: "counter.single.length + place, units, makeLease",
        to: "counter.single.length + place + 1, units, makeLease",
      },
    ],
  },
  {
    name: "two requests of a call are granted the same room",
    seed: 4,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [
      { file: model, from: "return this.#taken + units <= this.#free;", to: "return units <= this.#free;" },
    ],
  },
  {
    name: "no policy has refused",
    seed: 31,
    concerns: ({ policies }) => policies.length > 1,
    replacements: [
      { file: batch, from: "return answer.fitsUs !== 0 || answer.free < units;", to: "return units < 0;" },
    ],
  },
  {
    name: "what was granted is not admitted",
    seed: 2,
    concerns: () => true,
    replacements: [
      {
        file: storeCounters,
        from: 'const has = grant?.kind === "granted" ||',
        to: 'const has = grant?.kind === "alone" ||',
      },
    ],
  },
];

/**
 * Replaces what a mutation says, in modules that are loaded from now on. Throws if a module has not exactly one such text.
 */
export function mutate(name: string): Mutation {
  const mutation = mutations.find((each) => each.name === name);
  if (mutation === undefined)
    throw new Error(`no such mutation; there are: ${mutations.map((each) => each.name).join(", ")}`);
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context);
      const wanted = mutation.replacements.filter(({ file }) => url.endsWith(`/${file}`));
      if (wanted.length === 0) return loaded;
      let source =
        typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source as Uint8Array).toString();
      for (const replacement of wanted) source = replaceOnce(source, replacement);
      return { ...loaded, source };
    },
  });
  return mutation;
}
