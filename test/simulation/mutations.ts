// Safeguards that are taken out, to see that the simulation misses each of them. A mutation replaces a text of a source
// while it is loaded; nothing of it is in the code that runs otherwise.
import { registerHooks } from "node:module";
import { holdsUntilEnd } from "../../src/limits/policies.ts";
import { type Replacement, replaceOnce } from "../support/replacement.ts";
import type { Failure, Plan } from "./plan.ts";

export interface Mutation {
  readonly name: string;
  /** A seed whose run shows it. `npm test` runs them all without the mutations. */
  readonly seed: number;
  /** Whether that is a run of draw-breaks.ts. */
  readonly isOfBreaks: boolean;
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

type Text = readonly [file: string, from: string, to: string];

const always = (): boolean => true;

function mutation(
  name: string,
  seed: number,
  texts: readonly Text[],
  concerns: Mutation["concerns"] = always,
  isOfBreaks = false,
): Mutation {
  const replacements = texts.map(([file, from, to]) => ({ file, from, to }));
  return { name, seed, isOfBreaks, concerns, replacements };
}

function ofBreaks(
  name: string,
  seed: number,
  texts: readonly Text[],
  concerns: Mutation["concerns"] = always,
): Mutation {
  return mutation(name, seed, texts, concerns, true);
}

export const mutations: readonly Mutation[] = [
  mutation(
    "a lease lasts from its answer on",
    404,
    [[store, "sentMs + rules.spendMs / (1 + drift)", "nowMs + rules.spendMs / (1 + drift)"]],
    leasesAhead,
  ),
  mutation(
    "ids from a counter",
    65,
    [
      [
        gateway,
        "this.id = randomText(chance, gatewayLength);",
        "this.id = String(gateway).padEnd(gatewayLength, '-');",
      ],
      [gateway, "thread: randomText(chance, threadLength)", "thread: String(index).padEnd(threadLength, '-')"],
    ],
    plays("crash"),
  ),
  mutation(
    "no margin for drift",
    3_327,
    [[store, "sentMs + rules.spendMs / (1 + drift)", "sentMs + rules.spendMs"]],
    leasesAhead,
  ),
  mutation(
    "epoch ignored",
    954,
    [[shard, "if (identity.epoch !== before.epoch) {", "if (identity.epoch === '') {"]],
    plays("failover", "restart"),
  ),
  mutation(
    "steps of the store's clock not watched",
    254,
    [[shard, 'if (step === "forward")', 'if (step === "never")']],
    plays("step"),
  ),
  mutation(
    "told nothing",
    32,
    [[model, "if (this.#told !== null) this.#tell(this.#told);", ""]],
    plays("flush", "restart", "failover", "part", "cut"),
  ),
  mutation("the clock read before waiting", 9, [
    [limiter, "refusing = this.#put(asks, chargedAt(this.set, nowMs));", "refusing = this.#put(asks, nowMs);"],
  ]),
  mutation(
    "units given back twice",
    9,
    [
      [sharedKey, "return taken.map(", "return [...taken, ...taken].map("],
      [
        model,
        "if (reported === undefined || endsUs >= reported.endsUs) return;",
        "if (reported === undefined) { this.counter.units -= granted - spent; return; }",
      ],
    ],
    leasesAhead,
  ),
  // With the other safeguard, since a shard is told nothing of a period that began after it was told.
  mutation(
    "told what counts in another period",
    63_129,
    [
      [
        "src/limits/store/items.ts",
        "return periodEndMs * 1000 === rules.untilUs;",
        "return periodEndMs * 1000 !== rules.untilUs || true;",
      ],
      [sharedKey, "(this.policy.periods.get(shard)?.beganMs ?? earlierMs) <= earlierMs", "shard >= -1"],
    ],
    ({ policies, shards }) => shards.length > 1 && policies.some(({ rate }) => rate.kind === "calendar"),
  ),
  // With the other safeguard, since a gateway that has read the log tells nothing that the mark would make void.
  mutation(
    "told ignores the mark",
    139,
    [
      [
        model,
        "return (this.#marks.get(markKey) ?? 0) > forgivenUntil;",
        "return false && forgivenUntil > 0 && markKey !== '';",
      ],
      [
        telling,
        "void this.#readForgiven()\n      .then(() => this.#forgets",
        "void Promise.resolve()\n      .then(() => this.#forgets",
      ],
    ],
    (plan) => forgives(plan) && plays("part", "cut", "late", "pause", "restart", "failover")(plan),
  ),
  mutation("the mark is not set", 0, [[model, "this.#marks.set(item.markKey, item.seq);", ""]], forgives),
  mutation(
    "forgotten before it is in the log",
    0,
    [
      [
        rules,
        "const result = await this.#write(entry, (",
        "this.#options.onForgiven([{ name, seq: Math.floor(this.#wallMs * 1000) }], this.#version); const result = await this.#write(entry, (",
      ],
    ],
    forgives,
  ),
  mutation(
    "what ended is forgotten",
    1_846,
    [
      [
        rules,
        "if (!this.#isOverwritten(entry)) this.#takeEntry(",
        "if (!this.#written.has(entry.name) && entry.endsMs > this.#wallMs) this.#takeEntry(",
      ],
    ],
    sharesRules,
  ),
  mutation(
    "a store that forgot is not told the rules again",
    111,
    [[rules, 'if (mine.revision > floor) mine.untold = "lost";', 'if (mine.revision < floor) mine.untold = "lost";']],
    (plan) => sharesRules(plan) && plays("flush", "restart")(plan),
  ),
  mutation(
    "a write of this gateway that the store has lost is taken for read",
    41_372,
    [[rules, 'if (operation.operation === "write") this.#mustReadAll = true;', ""]],
    (plan) => sharesRules(plan) && plays("restart", "failover")(plan),
  ),
  mutation(
    "what was written while pages were read is taken for read",
    1_919,
    [[rules, "first ??= answer;", "first = answer;"]],
    sharesRules,
  ),
  mutation(
    "a rule that was removed without the store is not known to have been removed",
    101_737,
    [[rulesModel, "there + Number(proposed) === 0", "there === 0"]],
    (plan) => sharesRules(plan) && plays("restart", "flush", "failover")(plan),
  ),
  mutation(
    "a rule that was set alone has its revision although there is something newer",
    12,
    [[rulesModel, "before.revision >= Number(proposed) ? this.#version : Number(proposed)", "Number(proposed)"]],
    sharesRules,
  ),
  mutation(
    "the wait of a policy that was not asked is not told",
    320_290,
    [
      [
        limiter,
        "if (refusing === null || this.set.store === null) return refusing;",
        "if (refusing !== undefined) return refusing;",
      ],
    ],
    ({ policies, clients, failures }) => {
      const isCharged = policies.some(({ chargeStatuses }) => chargeStatuses !== null);
      return (
        failures.length === 0 && policies.length > 1 && isCharged && clients.every(({ kind }) => kind === "waiter")
      );
    },
  ),
  mutation(
    "units that others were granted are taken for spent",
    95_060,
    [
      [
        sharedKey,
        "    this.free = free;\n    this.resetMs",
        "    leasedUs = -1;\n    this.free = free;\n    this.resetMs",
      ],
    ],
    ({ policies, shards, failures }) =>
      failures.length === 0 && shards.length > 1 && policies.some(({ key }) => key.length === 0),
  ),
  mutation(
    "a refused request takes of the keys that have room",
    4,
    [
      [
        model,
        "if (isGranted) for (const { turn, units } of turns) if (turn instanceof Turn) turn.take(units, place);",
        "for (const { turn, units } of turns) if (turn instanceof Turn && turn.hasRoom(units)) turn.take(units, place);",
      ],
    ],
    ({ policies }) => policies.length > 1,
  ),
  mutation(
    "one key that has room is enough",
    4,
    [[model, "turns.every(({ turn, units })", "turns.some(({ turn, units })"]],
    ({ policies }) => policies.length > 1,
  ),
  mutation(
    "a grant that is over is spent all the same",
    1_640,
    [
      [
        storeCounters,
        'const isOver = grant?.kind === "granted" && (',
        'const isOver = grant?.kind === "granted" && nowMs < 0 && (',
      ],
    ],
    plays("pause"),
  ),
  mutation(
    "a refused request releases nothing",
    20,
    [[limiter, "if (this.set.store !== null) for (const ask of asks) ask.shared?.release();", ""]],
    ({ policies }) => policies.length > 1,
  ),
  mutation(
    "two requests take the same units that were leased ahead",
    4,
    [[sharedKey, "lease.left -= units;", ""]],
    leasesAhead,
  ),
  mutation(
    "what is granted too late is reserved for nobody",
    8,
    [[batch, "if (isWaiting) reserve(lease, units);", "reserve(lease, units);"]],
    plays("late", "pause", "part"),
  ),
  mutation(
    "a shadow policy is judged with the others",
    63,
    [[policyAsks, "if (row.isShadow) groups.push([shared]);\n    else ", ""]],
    ({ policies }) => policies.some((each) => each.mode === "shadow" && holdsUntilEnd(each)),
  ),
  mutation(
    "a policy that had room refuses with the others",
    4,
    [[batch, "hasRefused(need.units) ? refused : spared", "hasRefused(need.units) ? refused : refused"]],
    ({ policies }) => policies.length > 1,
  ),
  mutation("a second wait is as long as the first", 305, [[policyAsks, "attempt === 1 ? null : sinceMs", "null"]]),
  mutation("what was spent stays reserved", 0, [
    [sharedKey, "lease.reserved -= units;\n    lease.spentMs = nowMs;", "lease.spentMs = nowMs;"],
  ]),
  mutation(
    "the leases of requests for several keys have the ids of others",
    80,
    [[batch, "counter.single.length + place, units, makeLease", "counter.single.length + place + 1, units, makeLease"]],
    ({ policies }) => policies.length > 1 && policies.some(holdsUntilEnd),
  ),
  mutation(
    "two requests of a call are granted the same room",
    4,
    [[model, "return this.#taken + units <= this.#free;", "return units <= this.#free;"]],
    ({ policies }) => policies.length > 1,
  ),
  mutation(
    "no policy has refused",
    31,
    [[batch, "return answer.fitsUs !== 0 || answer.free < units;", "return units < 0;"]],
    ({ policies }) => policies.length > 1,
  ),
  mutation("what was granted is not admitted", 2, [
    [storeCounters, 'const has = grant?.kind === "granted" ||', 'const has = grant?.kind === "alone" ||'],
  ]),
  ofBreaks("what a lost call has reported is forgotten", 31, [
    [store, "this.reportAgain(key, sent?.reports ?? []);", "key.held.reported(sent?.reports ?? []);"],
  ]),
  ofBreaks("what a lost call may have been granted is not given back", 60, [
    [
      store,
      "if (granted > 0) key.held.report({ id, granted, spent: 0, spentMs });",
      "if (granted < 0) key.held.report({ id, granted, spent: 0, spentMs });",
    ],
  ]),
  ofBreaks("units that are kept of a lease that the store has lost are not told", 86, [
    [sharedKey, "if (!isKnown) this.untold.requests += 1;", ""],
  ]),
  ofBreaks("units that were admitted alone are not told when they are kept", 2, [
    [storeCounters, 'else if (how === "keep") {', 'else if (how !== "keep" && how !== "giveBack") {'],
  ]),
  ofBreaks("units that are held are told with those that are kept", 1, [
    [
      "src/limits/slot-counters.ts",
      "(table.isOwn(cursor) ? Math.max(0, held) : 0)",
      "(table.isOwn(cursor) ? Math.min(0, held) : 0)",
    ],
  ]),
  ofBreaks(
    "units are told before all of them are reported",
    1_333,
    [
      [store, "const mustTell = isOwed && key.held.ended === 0;", "const mustTell = isOwed;"],
      [telling, "if (key.held.ended > 0) return", "if (key.held.ended < 0) return"],
    ],
    ({ policies, failures }) =>
      policies.some(({ rate, limit }) => rate.kind === "calendar" && limit > 32) &&
      failures.some(({ kind }) => kind === "restart"),
  ),
  ofBreaks("what a thread holds is taken for what it tells", 65, [
    [
      model,
      "entry.id.endsWith(heldMark) && threadOf(entry.id) === threadOf(id)",
      "entry.id.endsWith(heldMark) && threadOf(entry.id) === ''",
    ],
  ]),
  ofBreaks("what another thread holds is told beside it", 22, [
    [model, "entry.id.endsWith(heldMark) && threadOf(entry.id) === threadOf(id)", "entry.id.endsWith(heldMark)"],
  ]),
  ofBreaks("units of a gateway that has died count as held for ever", 33, [
    [model, "this.#nowUs + this.item.windowUs + this.#leaseUs - heldForUs", "this.#nowUs - heldForUs"],
  ]),
  mutation(
    "a refusal beside units that are held says when they would end",
    336,
    [
      [
        model,
        "free + this.#unitsHeld() >= step ? heldRetryUs",
        "free + this.#unitsHeld() >= step ? Number.POSITIVE_INFINITY",
      ],
    ],
    ({ policies, failures }) => failures.length === 0 && policies.some((each) => each.chargeStatuses !== null),
  ),
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
