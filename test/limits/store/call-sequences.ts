// Random sequences of calls, for the script and its model: requests of one counter and of several, calls that are made twice,
// leases that are reported once, twice, late and in any order, what gateways tell, limits that change, and a clock that steps.
import fc from "fast-check";
import { expect } from "vitest";
import {
  type EqualRequests,
  heldMark,
  type Item,
  type LeaseReport,
  leaseIdOf,
  type ScriptAnswer,
} from "../../../src/limits/store/script-call.ts";
import { isLeasedByRequest, ScriptModel } from "../../simulation/script-model.ts";
import type { RealScript } from "./real-script.ts";

const startUs = 1_800_000_000_000_000;
const second = 1_000_000;
const gateways = ["gateway-aaaa", "gateway-bbbb", "gateway-cccc"];

/** Numbers from which a call is made, when it is known what the calls before it have granted. */
interface Draw {
  readonly passedUs: number;
  readonly items: readonly DrawnItem[];
  /** Of each request, which of the counters it needs, and of how many steps. */
  readonly requests: readonly (readonly { readonly item: number; readonly steps: number }[])[];
  readonly count: number;
  readonly isRepeated: boolean;
}

interface DrawnItem {
  readonly kind: "sliding" | "calendar" | "concurrency" | "forget" | "gateways" | "secret";
  readonly key: number;
  readonly gateway: number;
  readonly limit: number;
  readonly windowUs: number;
  readonly leaseUs: number;
  readonly step: number;
  readonly asked: number;
  readonly ahead: number;
  readonly reusesId: boolean;
  readonly isHeld: boolean;
  readonly reports: readonly { readonly which: number; readonly spent: number; readonly ageUs: number }[];
  /** `known` and `seq`: of how many forgivenesses. */
  readonly told: { readonly units: number; readonly ageUs: number; readonly known: number } | null;
  readonly seq: number;
  readonly forgets: number;
}

interface CallAt {
  readonly timeUs: number;
  readonly items: readonly Item[];
  readonly requests: readonly EqualRequests[];
  /** Whether no id of it was used before. */
  readonly isFirst: boolean;
  readonly expected: ScriptAnswer;
}

const passedUs = fc.oneof(
  { weight: 4, arbitrary: fc.nat({ max: 20_000 }) },
  { weight: 3, arbitrary: fc.nat({ max: 2 * second }) },
  { weight: 1, arbitrary: fc.nat({ max: 15 * second }) },
  { weight: 1, arbitrary: fc.integer({ min: -3 * second, max: 0 }) },
  { weight: 1, arbitrary: fc.constantFrom(0, second, 10 * second, 15_000, -second, 61 * second, -61 * second) },
);
const ageUs = fc.oneof(fc.nat({ max: 300_000 }), fc.integer({ min: -second, max: 12 * second }));
const drawnItem: fc.Arbitrary<DrawnItem> = fc.record({
  kind: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom("sliding" as const, "calendar" as const, "concurrency" as const) },
    { weight: 1, arbitrary: fc.constantFrom("forget" as const, "gateways" as const, "secret" as const) },
  ),
  key: fc.nat({ max: 1 }),
  gateway: fc.nat({ max: 2 }),
  limit: fc.constantFrom(0, 1, 3, 20, 20, 20, 100, 1_000, 1_000_000_000),
  windowUs: fc.constantFrom(second, second, 10 * second, 60 * second + 7),
  leaseUs: fc.constantFrom(15_000, 15_000, 200_000, 3 * second),
  step: fc.constantFrom(1, 1, 1, 2, 7, 30),
  asked: fc.nat({ max: 4 }),
  ahead: fc.constantFrom(0, 0, 3, 10, 1_000),
  reusesId: fc.nat({ max: 19 }).map((drawn) => drawn === 0),
  isHeld: fc.boolean(),
  reports: fc.array(fc.record({ which: fc.nat({ max: 9 }), spent: fc.nat({ max: 11 }), ageUs }), { maxLength: 3 }),
  told: fc.option(fc.record({ units: fc.nat({ max: 25 }), ageUs, known: fc.nat({ max: 3 }) }), { freq: 6 }),
  seq: fc.nat({ max: 3 }),
  forgets: fc.nat({ max: 1 }),
});
const need = fc.record({ item: fc.nat({ max: 3 }), steps: fc.constantFrom(1, 1, 1, 2, 5) });
const draw: fc.Arbitrary<Draw> = fc.record({
  passedUs,
  items: fc.array(drawnItem, { minLength: 1, maxLength: 4 }),
  requests: fc.array(fc.array(need, { minLength: 1, maxLength: 4 }), { maxLength: 3 }),
  count: fc.constantFrom(1, 1, 2, 5),
  isRepeated: fc.nat({ max: 9 }).map((drawn) => drawn === 0),
});
const sequences = (maxLength: number): fc.Arbitrary<readonly Draw[]> =>
  fc.array(draw, { minLength: 1, maxLength, size: "max" });

/** The answers, and what is in the store afterwards, are those of the model. */
export async function compareWithModel(script: RealScript, numRuns: number, maxCalls: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(sequences(maxCalls), async (draws) => {
      await script.client.ask("FLUSHALL", "SYNC");
      const { calls, model } = callsOf(draws);
      const answers = await Promise.all(
        calls.map(({ timeUs, items, requests }) => script.callAt(timeUs, items, requests)),
      );
      expect(answers).toEqual(calls.map(({ expected }) => expected));
      for (const call of calls) if (call.isFirst) expect(call.expected).toEqual(judged(call));
      const keys = new Set(calls.flatMap(({ items }) => items).flatMap((item) => ("id" in item ? [item.key] : [])));
      for (const key of keys) expect(await script.unitsOf(key)).toEqual(model.unitsOf(key));
    }),
    { numRuns },
  );
}

/**
 * The answer as it must be by what was free before the call: of each counter its requests alone, then each request with all its
 * units or none, then what is wanted ahead.
 */
function judged({ items, requests, expected }: CallAt): ScriptAnswer {
  const room = expected.items.map((answer) => (answer.item === "counter" ? answer.free + answer.granted : 0));
  const left = [...room];
  const counters = items.map((item) => ("asked" in item ? item : null));
  const askedGranted = counters.map((item, i) => {
    if (item === null) return 0;
    const granted = Math.min(item.asked, Math.floor((left[i] ?? 0) / item.step));
    left[i] = (left[i] ?? 0) - granted * item.step;
    return granted;
  });
  const granted = requests.map(({ needs, count }) => {
    let fitting = 0;
    for (; fitting < count && needs.every(({ item, units }) => (left[item] ?? 0) >= units); fitting += 1)
      for (const { item, units } of needs) left[item] = (left[item] ?? 0) - units;
    return fitting;
  });
  const answers = expected.items.map((answer, i) => {
    const [item, before, after] = [counters[i], room[i] ?? 0, left[i] ?? 0];
    if (answer.item !== "counter" || !item) return answer;
    const taken = before - after;
    const most = isLeasedByRequest(item) ? 0 : Math.max(0, Math.min(item.ahead, Math.floor(before / 4) - taken));
    const ahead = most - (most % item.step);
    return { ...answer, granted: taken + ahead, askedGranted: askedGranted[i] ?? 0, ahead };
  });
  return { ...expected, items: answers, requests: granted };
}

/** A lease that a call has made, and the item of its counter. */
interface Granted {
  readonly key: string;
  readonly id: string;
  readonly granted: number;
}

/** Makes the calls of a sequence, with what the model answers to them. */
function callsOf(draws: readonly Draw[]): { calls: CallAt[]; model: ScriptModel } {
  let timeUs = startUs;
  const model = new ScriptModel(() => timeUs);
  const granted: Granted[] = [];
  const calls: CallAt[] = [];
  let ids = 0;
  for (const drawn of draws) {
    timeUs += drawn.passedUs;
    const items = distinct(
      drawn.items.map((each) => {
        const mark = each.isHeld && each.kind !== "concurrency" ? heldMark : "";
        const id = `${gateways[each.gateway]}thread-aaa${each.reusesId ? 1 : ++ids}${mark}`;
        return itemOf(each, id, granted);
      }),
    );
    const requests = drawn.requests.flatMap((needs) => requestsOf(needs, drawn.count, items));
    const isFirst = !drawn.items.some(({ reusesId }) => reusesId) && ids > drawn.items.length;
    for (const isAgain of drawn.isRepeated ? [false, true] : [false]) {
      const expected = model.call(items, requests);
      if (!isAgain) granted.push(...leasesOf(items, requests, expected));
      calls.push({ timeUs, items, requests, isFirst: isFirst && !isAgain, expected });
      if (drawn.isRepeated) timeUs += 3_000;
    }
  }
  return { calls, model };
}

/** A call has a key once. */
function distinct(items: readonly Item[]): readonly Item[] {
  const keys = new Set<string>();
  return items.filter((item) => {
    const mark = "markKey" in item ? item.markKey : "told" in item ? item.told?.markKey : undefined;
    if (keys.has(item.key) || (mark !== undefined && keys.has(mark))) return false;
    keys.add(item.key);
    if (mark !== undefined) keys.add(mark);
    return true;
  });
}

/** What they need of each counter of the call; nothing if they need none. */
function requestsOf(needs: Draw["requests"][number], count: number, items: readonly Item[]): EqualRequests[] {
  const byItem = new Map(
    needs.flatMap(({ item, steps }) => {
      const counter = items[item];
      return counter !== undefined && "step" in counter ? [[item, steps * counter.step] as const] : [];
    }),
  );
  return byItem.size === 0 ? [] : [{ count, needs: Array.from(byItem, ([item, units]) => ({ item, units })) }];
}

function leasesOf(items: readonly Item[], requests: readonly EqualRequests[], answer: ScriptAnswer): Granted[] {
  return items.flatMap((item, i): Granted[] => {
    const of = answer.items[i];
    if (!("asked" in item) || of?.item !== "counter" || of.granted === 0) return [];
    const { key, id, step, asked } = item;
    if (!isLeasedByRequest(item)) return [{ key, id, granted: of.granted }];
    const alone = Array.from({ length: of.askedGranted }, (_, place) => ({
      key,
      id: leaseIdOf(id, place),
      granted: step,
    }));
    let place = asked;
    const others = requests.flatMap(({ needs, count }, at) => {
      const first = place;
      place += count;
      const units = needs.find((each) => each.item === i)?.units ?? 0;
      const leases = units === 0 ? 0 : (answer.requests[at] ?? 0);
      return Array.from({ length: leases }, (_, n) => ({ key, id: leaseIdOf(id, first + n), granted: units }));
    });
    return [...alone, ...others];
  });
}

function itemOf(drawn: DrawnItem, id: string, granted: readonly Granted[]): Item {
  const { kind, limit, leaseUs, step, told } = drawn;
  const key = `headgate:1:{a0}:${kind}/${drawn.key}`;
  const gateway = gateways[drawn.gateway] ?? "";
  if (kind === "gateways")
    return { item: kind, key, gateway, silenceUs: 5 * second, ageUs: limit > 20 ? 4 * second : 0 };
  if (kind === "forget") {
    const counter = `${drawn.forgets === 0 ? "sliding" : "calendar"}/${drawn.key}`;
    const markKey = `headgate:1:{a0}:forgiven/${counter}`;
    return { item: kind, key: `headgate:1:{a0}:${counter}`, markKey, seq: drawn.seq, keepMs: 3_600_000 };
  }
  if (kind === "secret") return { item: kind, key, proposed: id.endsWith("1") ? "aa" : "bb" };
  const ofKey = granted.filter((lease) => lease.key === key);
  return {
    item: kind,
    key,
    limit,
    windowUs: kind === "sliding" ? drawn.windowUs : 0,
    // The first period ends in the middle of many sequences.
    untilUs: kind === "calendar" ? startUs + 10 * second + drawn.key * 60 * second : 0,
    keepUs: kind === "calendar" ? 3_600 * second : 0,
    leaseUs,
    step,
    asked: drawn.asked,
    ahead: drawn.ahead * step,
    id,
    told: told && { ...told, forgivenUntil: told.known, markKey: `headgate:1:{a0}:forgiven/${kind}/${drawn.key}` },
    reports: drawn.reports.flatMap((report) => reportOf(report, ofKey)),
  };
}

/** About one of the last leases of the key. */
function reportOf({ which, spent, ageUs }: DrawnItem["reports"][number], granted: readonly Granted[]): LeaseReport[] {
  const lease = granted.at(-1 - which);
  if (lease === undefined) return [];
  // Every second time all of it; sometimes more than was granted.
  return [{ id: lease.id, granted: lease.granted, spent: spent > 5 ? lease.granted : spent, ageUs }];
}
