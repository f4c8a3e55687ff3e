// The script where it is at its bounds, and where a key is not as the script has left it. Answers are those of the model too,
// except where the key was changed by somebody else.
import { describe, expect, test } from "vitest";
import { type CounterItem, mostItems, type ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import { redisNeeded, skipRedis } from "../../support/redis-servers.ts";
import { counterOf, type GivenItem, itemOf, type ScriptAndModel, startUs, useScriptAndModel } from "./real-script.ts";

const key = "headgate:1:{a0}:s/default/address";
const [a, b, c] = ["gateway-aaaa", "gateway-bbbb", "gateway-cccc"];
const lease = (gateway: string, number: number): string => `${gateway}thread-aaa${number}`;
/** A window of a second, and a limit that does not matter. */
const wide = { key, windowUs: 1_000_000, limit: 1_000_000, leaseUs: 15_000 };

describe.skipIf(skipRedis)(`the script at its bounds${redisNeeded}`, () => {
  let both: ScriptAndModel;

  useScriptAndModel((emptied) => {
    both = emptied;
  });

  async function bothAt(ms: number, ...items: GivenItem[]) {
    both.timeUs = startUs + ms * 1000;
    const answer = await both.call(items.map((item) => itemOf(item)));
    return counterOf(answer, items.length - 1);
  }

  /** One unit of each of many leases. */
  async function grantMany(count: number, gateway: string, given: GivenItem, ms = 0) {
    both.timeUs = startUs + ms * 1000;
    const calls = Array.from({ length: count }, (_, i) => [itemOf({ ...given, id: lease(gateway, i) })]);
    await Promise.all(calls.map((items) => both.call(items)));
  }

  test("a call drops 1,000 entries, and says that more will go", async () => {
    await grantMany(2_500, a, wide);
    const asked = { ...wide, limit: 1_000 };
    expect(await bothAt(1_015, asked)).toMatchObject({ granted: 0, free: 0, fitsUs: 1, resetUs: 1 });
    // A lease that has expired and is not dropped yet is one that has gone. By its name, this one is the last.
    const last = lease(a, 999);
    const reports = [{ id: last, granted: 1, spent: 0, ageUs: 0 }];
    expect(await bothAt(1_016, { ...asked, limit: 501, asked: 0, reports })).toMatchObject({ free: 1, fitsUs: 0 });
    expect(await bothAt(1_017, asked)).toMatchObject({ granted: 1, free: 999, fitsUs: 0 });
    expect(await both.script.unitsOf(key)).toBe(1);
  });

  test("a refusal looks at 200 entries, and says when to ask again", async () => {
    await grantMany(150, a, wide);
    await grantMany(150, b, wide, 100);
    expect(await bothAt(200, { ...wide, limit: 400, step: 220, asked: 1 })).toMatchObject({ fitsUs: 815_000 });
    expect(await bothAt(200, { ...wide, limit: 400, step: 390, asked: 1 })).toMatchObject({ fitsUs: 915_000 });
    await grantMany(100, c, wide, 300);
    expect(await bothAt(400, { ...wide, limit: 400, step: 350, asked: 1 })).toMatchObject({ fitsUs: 715_000 });
  });

  test("what a gateway tells is compared with all that it has, behind that of others too", async () => {
    await grantMany(500, a, wide);
    await grantMany(2_000, b, wide, 100);
    const told = { units: 501, ageUs: 0 };
    expect(await bothAt(200, { ...wide, asked: 0, id: lease(a, 900), told })).toMatchObject({
      free: 1_000_000 - 2_501,
    });
    expect(await bothAt(200, { ...wide, asked: 0, id: lease(a, 901), told })).toMatchObject({
      free: 1_000_000 - 2_501,
    });
  });

  test("a long window has about a thousand entries of a gateway, however many leases it had", async () => {
    const day = { key, windowUs: 86_400_000_000, limit: 10_000, leaseUs: 1_000_000, asked: 2 };
    let [lastMs, atMs] = [0, 0];
    const calls: { timeUs: number; items: CounterItem[] }[] = [];
    for (let i = 0; i < 3_000; i += 1) {
      const reports = i === 0 ? [] : [{ id: lease(a, i - 1), granted: 2, spent: 1, ageUs: (atMs - lastMs) * 1000 }];
      calls.push({ timeUs: startUs + atMs * 1000, items: [itemOf({ ...day, id: lease(a, i), reports })] });
      [lastMs, atMs] = [atMs, atMs + 28_000];
    }
    const asked = calls.map(({ timeUs, items }) => {
      both.timeUs = timeUs;
      return both.call(items);
    });
    const answers = await Promise.all(asked);
    expect(counterOf(answers.at(-1) as ScriptAnswer)).toMatchObject({ granted: 2, free: 10_000 - 3_001 });
    expect(await both.script.unitsOf(key)).toBe(3_001);
    expect(await both.script.client.ask("ZCARD", key)).toBeLessThan(1_010);
    // The first counts until the end of its thousandth of the window.
    const thousandthMs = 86_400;
    expect((await bothAt(86_400_000, { ...day, asked: 0 })).free).toBe(6_999);
    expect((await bothAt(86_400_000 + thousandthMs, { ...day, asked: 0 })).free).toBeGreaterThan(6_999);
  });

  test("a call that is made twice is granted the same again, which counts once, and for as long as the later of the two", async () => {
    const used = { ...wide, limit: 3, id: lease(a, 1) };
    await bothAt(0, { ...used, leaseUs: 500_000 });
    expect(await bothAt(1, used)).toMatchObject({ granted: 1, free: 2, resetUs: 1_499_000 });
    expect(await bothAt(1_000, used)).toMatchObject({ granted: 1, free: 2, resetUs: 1_015_000 });
    // What is judged in another way counts beside it.
    expect(await bothAt(1_001, { ...used, asked: 2 })).toMatchObject({ granted: 2, free: 0 });
    expect(await bothAt(1_002, used)).toMatchObject({ granted: 0, free: 0 });
    expect(await bothAt(2_014, { ...used, asked: 0 })).toMatchObject({ free: 0 });
    expect(await bothAt(2_015, { ...used, asked: 0 })).toMatchObject({ free: 1 });
  });

  test("a call has 64 counters, and any number of requests of one", async () => {
    const item = { ...wide, limit: 60, id: lease(a, 1) };
    expect(await bothAt(0, { ...item, asked: 64 })).toMatchObject({ granted: 60, free: 0, fitsUs: 1_015_000 });
    await bothAt(1, ...Array.from({ length: mostItems }, (_, i) => ({ ...item, key: `${key}/${i}` })));
    expect(await both.script.client.ask("DBSIZE")).toBe(65);
  });

  test("units are exact up to a thousand millions and beyond", async () => {
    const huge = { ...wide, limit: 2 ** 40, asked: 999_999_999 };
    for (let i = 0; i < 5; i += 1) await bothAt(i, { ...huge, id: lease(a, i) });
    const reports = [{ id: lease(a, 0), granted: 999_999_999, spent: 999_999_998, ageUs: 5_000 }];
    expect(await bothAt(5, { ...huge, asked: 0, reports })).toMatchObject({ free: 2 ** 40 - 4_999_999_994 });
    const period = { item: "calendar", untilUs: startUs + 1_000_000, windowUs: 0 } as const;
    const told = { units: 2 ** 39 + 1, ageUs: 0 };
    expect(await bothAt(5, { ...huge, ...period, key: `${key}/c`, id: lease(a, 9), told })).toMatchObject({
      free: 2 ** 39 - 1 - 999_999_999,
    });
  });

  test("a period ends at its instant by the store's clock, and a lease may end behind it", async () => {
    const period = { item: "calendar", key, windowUs: 0, leaseUs: 100_000 } as const;
    const day = { ...period, untilUs: startUs + 1_000_000, keepUs: 1_000_000 };
    const isIn = async (ms: number) =>
      (await bothAt(ms, { ...wide, key: `${key}/beside` }, { ...day, asked: 2 })).isInPeriod;
    expect(await isIn(0)).toBe(true);
    expect(await bothAt(999.999, { ...day, id: lease(b, 1) })).toMatchObject({ granted: 1, resetUs: 1 });
    expect(await isIn(1_000)).toBe(false);
    const late = {
      ...day,
      reports: [{ id: lease(b, 1), granted: 1, spent: 0, ageUs: 0 }],
      told: { units: 3, ageUs: 0 },
    };
    expect(await bothAt(1_000, late)).toMatchObject({ isInPeriod: false, granted: 0 });
    // The clock goes back into the period: what was granted is as it was.
    expect(await bothAt(900, { ...day, asked: 0, reports: late.reports })).toMatchObject({
      isInPeriod: true,
      free: 1,
    });
  });

  test("reports, what is told and a grant of one call are done in this order", async () => {
    const shared = { ...wide, limit: 10, leaseUs: 200_000 };
    await bothAt(0, { ...shared, asked: 10, id: lease(a, 1) });
    const answer = await bothAt(100, {
      ...shared,
      asked: 10,
      id: lease(a, 2),
      // Six come back, then four of eight are missing.
      reports: [{ id: lease(a, 1), granted: 10, spent: 4, ageUs: 0 }],
      told: { units: 8, ageUs: 0 },
    });
    expect(answer).toMatchObject({ granted: 2, free: 0 });
    expect(await both.script.unitsOf(key)).toBe(10);
  });

  test("a key that somebody has changed is counted again", async () => {
    for (let i = 0; i < 3; i += 1) await bothAt(i, { ...wide, limit: 5, id: lease(a, i) });
    await both.script.client.ask("ZREM", key, "units", "clock");
    const asked = itemOf({ ...wide, limit: 5 });
    expect(counterOf(await both.script.callAt(startUs + 10_000, [asked]))).toMatchObject({
      granted: 1,
      free: 1,
      isNew: false,
    });
    await both.script.client.ask("ZREM", key, "expiry");
    expect(counterOf(await both.script.callAt(startUs + 11_000, [{ ...asked, id: lease(b, 1) }])).free).toBe(0);
    expect(await both.script.unitsOf(key)).toBe(5);
    await both.script.client.ask("ZREM", key, "clock");
    const last = counterOf(await both.script.callAt(startUs + 1_100_000, [{ ...asked, id: lease(b, 3) }]));
    expect(last).toMatchObject({ granted: 1, free: 4 });
    await both.script.client.ask("ZREMRANGEBYRANK", key, 3, -1);
    const next = counterOf(await both.script.callAt(startUs + 1_101_000, [{ ...asked, id: lease(b, 2) }]));
    expect(next).toMatchObject({ granted: 1, free: 4 });
  });
});
