// Random sequences of calls, for the script and its model: leases that are reported once, twice, late and in any order, what
// gateways tell, limits that change, and a clock that steps.
import fc from "fast-check";
import { expect } from "vitest";
import {
  type CounterItem,
  heldMark,
  type Item,
  type LeaseReport,
  type ScriptAnswer,
} from "../../../src/limits/store/script-call.ts";
import { ScriptModel } from "../../simulation/script-model.ts";
import type { RealScript } from "./real-script.ts";

const startUs = 1_800_000_000_000_000;
const second = 1_000_000;
const gateways = ["gateway-aaaa", "gateway-bbbb", "gateway-cccc"];

/** Numbers from which a call is made, when it is known what the calls before it have granted. */
interface Draw {
  readonly passedUs: number;
  readonly items: readonly DrawnItem[];
}

interface DrawnItem {
  readonly kind: "sliding" | "calendar" | "concurrency" | "forget" | "gateways" | "secret";
  readonly key: number;
  readonly gateway: number;
  readonly limit: number;
  readonly windowUs: number;
  readonly leaseUs: number;
  readonly step: number;
  readonly needed: number;
  readonly wanted: number;
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
  needed: fc.nat({ max: 4 }),
  wanted: fc.constantFrom(0, 0, 3, 10, 1_000),
  reusesId: fc.nat({ max: 19 }).map((drawn) => drawn === 0),
  isHeld: fc.boolean(),
  reports: fc.array(fc.record({ which: fc.nat({ max: 9 }), spent: fc.nat({ max: 11 }), ageUs }), { maxLength: 3 }),
  told: fc.option(fc.record({ units: fc.nat({ max: 25 }), ageUs, known: fc.nat({ max: 3 }) }), { freq: 6 }),
  seq: fc.nat({ max: 3 }),
  forgets: fc.nat({ max: 1 }),
});
const sequences = (maxLength: number): fc.Arbitrary<readonly Draw[]> =>
  fc.array(fc.record({ passedUs, items: fc.array(drawnItem, { minLength: 1, maxLength: 3 }) }), {
    minLength: 1,
    maxLength,
    size: "max",
  });

/** The answers, and what is in the store afterwards, are those of the model. */
export async function compareWithModel(script: RealScript, numRuns: number, maxCalls: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(sequences(maxCalls), async (draws) => {
      await script.client.ask("FLUSHALL", "SYNC");
      const { calls, model } = callsOf(draws);
      const answers = await Promise.all(calls.map(({ timeUs, items }) => script.callAt(timeUs, items)));
      expect(answers).toEqual(calls.map(({ expected }) => expected));
      const keys = new Set(calls.flatMap(({ items }) => items).flatMap((item) => ("id" in item ? [item.key] : [])));
      for (const key of keys) expect(await script.unitsOf(key)).toEqual(model.unitsOf(key));
    }),
    { numRuns },
  );
}

/** Makes the calls of a sequence, with what the model answers to them. */
function callsOf(draws: readonly Draw[]): { calls: CallAt[]; model: ScriptModel } {
  let timeUs = startUs;
  const model = new ScriptModel(() => timeUs);
  const granted: { item: CounterItem; granted: number }[] = [];
  const calls: CallAt[] = [];
  let ids = 0;
  for (const draw of draws) {
    timeUs += draw.passedUs;
    const items = draw.items.map((drawn) => {
      const mark = drawn.isHeld && drawn.kind !== "concurrency" ? heldMark : "";
      const lease = `${gateways[drawn.gateway]}thread-aaa${drawn.reusesId ? 1 : ++ids}${mark}`;
      return itemOf(drawn, lease, granted);
    });
    const expected = model.call(items);
    expected.items.forEach((answer, i) => {
      const item = items[i];
      if (answer.item === "counter" && answer.granted > 0 && item !== undefined && "reports" in item) {
        granted.push({ item, granted: answer.granted });
      }
    });
    calls.push({ timeUs, items, expected });
  }
  return { calls, model };
}

function itemOf(drawn: DrawnItem, id: string, granted: readonly { item: CounterItem; granted: number }[]): Item {
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
  const ofKey = granted.filter(({ item }) => item.key === key);
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
    needed: drawn.needed * step,
    wanted: Math.max(drawn.needed, drawn.wanted) * step,
    id,
    told: told && { ...told, forgivenUntil: told.known, markKey: `headgate:1:{a0}:forgiven/${kind}/${drawn.key}` },
    reports: drawn.reports.flatMap((report) => reportOf(report, ofKey)),
  };
}

/** About one of the last leases of the key. */
function reportOf(
  { which, spent, ageUs }: DrawnItem["reports"][number],
  granted: readonly { item: CounterItem; granted: number }[],
): LeaseReport[] {
  const lease = granted.at(-1 - which);
  if (lease === undefined) return [];
  // Every second time all of it; sometimes more than was granted.
  return [{ id: lease.item.id, granted: lease.granted, spent: spent > 5 ? lease.granted : spent, ageUs }];
}
