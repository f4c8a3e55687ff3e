// Requests of several counters: the script judges all counters of a request in one go, and it is granted all of its units or
// none. Each table is run on the real script and on the model; call-sequences.ts holds both against a naive count.
import { describe, expect, test } from "vitest";
import { type EqualRequests, heldMark, type Item, leaseIdOf } from "../../../src/limits/store/script-call.ts";
import { redisNeeded, skipRedis } from "../../support/redis-servers.ts";
import {
  counterOf,
  type GivenItem,
  itemOf,
  leaseId,
  type ScriptAndModel,
  startUs,
  useScriptAndModel,
} from "./real-script.ts";

const keys = ["a", "b", "c", "d"].map((name) => `headgate:1:{a0}:s/${name}/client`);
/** The n-th counter, of which nobody asks alone unless it is said. */
const counter = (n: number, given: GivenItem = {}) => itemOf({ key: keys[n] ?? "", asked: 0, limit: 1, ...given });
/** A request for one unit of each of these items. */
const all = (...items: number[]): EqualRequests => ({ count: 1, needs: items.map((item) => ({ item, units: 1 })) });

describe.skipIf(skipRedis)(`requests of several counters${redisNeeded}`, () => {
  let both: ScriptAndModel;

  useScriptAndModel((emptied) => {
    both = emptied;
  });

  /** Returns the requests, and of each counter what was granted. */
  async function ask(items: readonly Item[], requests: readonly EqualRequests[]) {
    const answer = await both.call(items, requests);
    return { requests: answer.requests, units: items.map((_, i) => counterOf(answer, i).granted) };
  }

  const counted = () => Promise.all(keys.map((key) => both.script.unitsOf(key)));

  test("one that a counter refuses takes nothing of the others, so that the next one has it", async () => {
    await ask([counter(1, { asked: 1 })], []);
    const items = [counter(0), counter(1), counter(2)];
    expect(await ask(items, [all(0, 1), all(2, 1), all(2, 0)])).toEqual({
      requests: [0, 0, 1],
      units: [1, 0, 1],
    });
    expect(await counted()).toEqual([1, 1, 1, 0]);
  });

  test("they are judged in the order of their arrival, after those that ask for one counter alone", async () => {
    const items = [counter(0, { limit: 3, asked: 2 }), counter(1, { limit: 9 })];
    const answer = await both.script.callAt(both.timeUs, items, [all(1, 0), all(0, 1), all(1)]);
    expect(answer.requests).toEqual([1, 0, 1]);
    expect(answer.items).toMatchObject([
      { granted: 3, askedGranted: 2, ahead: 0, free: 0 },
      { granted: 2, askedGranted: 0, ahead: 0, free: 7 },
    ]);
  });

  test("units ahead are granted after all of them, and with theirs at most a quarter of what was free", async () => {
    const items = [counter(0, { limit: 400, asked: 20, ahead: 900 }), counter(1, { limit: 7, ahead: 100 })];
    const answer = await both.script.callAt(both.timeUs, items, [
      {
        count: 1,
        needs: [
          { item: 0, units: 30 },
          { item: 1, units: 2 },
        ],
      },
    ]);
    expect(answer.items).toMatchObject([
      { granted: 100, askedGranted: 20, ahead: 50 },
      { granted: 2, ahead: 0 },
    ]);
  });

  test("a counter that is over or foreign refuses them, and the other counters are as before", async () => {
    await both.script.client.ask("SET", keys[1] ?? "", "text");
    const over = { item: "calendar", untilUs: startUs, windowUs: 0 } as const;
    const items = [counter(0, { limit: 2 }), counter(1), counter(2, over)];
    const answer = await both.script.callAt(both.timeUs, items, [all(0, 1), all(0, 2), all(0)]);
    expect(answer.requests).toEqual([0, 0, 1]);
    expect(answer.items).toMatchObject([
      { granted: 1, free: 1 },
      { granted: 0, isForeign: true },
      { granted: 0, isInPeriod: false },
    ]);
    expect(await both.script.client.ask("EXISTS", keys[2] ?? "")).toBe(0);
  });

  test("a call whose requests are all refused writes nothing", async () => {
    await ask([counter(1, { asked: 1 })], []);
    expect(await ask([counter(0), counter(1)], [all(0, 1)])).toEqual({ requests: [0], units: [0, 0] });
    expect(await both.script.client.ask("KEYS", "*")).toEqual([keys[1]]);
  });

  test.each<[string, GivenItem, string]>([
    ["slots", { item: "concurrency" }, ""],
    ["units that are held", {}, heldMark],
  ])("%s are given back request by request", async (_, given, mark) => {
    const held = { ...given, limit: 5, id: leaseId("gateway-aaaa") + mark };
    const items = [counter(0, { ...held, asked: 2 }), counter(1, { limit: 9 })];
    const needs = [
      { item: 0, units: 2 },
      { item: 1, units: 1 },
    ];
    expect(await ask(items, [all(1), { count: 1, needs }])).toEqual({ requests: [1, 1], units: [4, 2] });
    const report = (place: number, granted: number) => ({ id: leaseIdOf(held.id, place), granted, spent: 0, ageUs: 0 });
    const look = { ...held, id: leaseId("gateway-bbbb") };
    // The second request of several counters, and the first that asked alone.
    await ask([counter(0, { ...look, reports: [report(3, 2), report(0, 1)] })], []);
    expect(await counted()).toEqual([1, 2, 0, 0]);
    // What was refused has no lease.
    await ask([counter(0, { ...look, reports: [report(2, 2), report(2, 1)] })], []);
    expect(await counted()).toEqual([1, 2, 0, 0]);
  });

  test("a call that is made twice is granted the same again, and counts once", async () => {
    const id = leaseId("gateway-aaaa");
    const items = [
      counter(0, { id, limit: 9, asked: 2 }),
      counter(1, { id: `${id}${heldMark}`, limit: 9, asked: 1 }),
      counter(2, { id, limit: 9, item: "concurrency", windowUs: 0 }),
    ];
    const first = await ask(items, [all(0, 1, 2), all(1)]);
    both.timeUs += 1_000;
    expect(await ask(items, [all(0, 1, 2), all(1)])).toEqual(first);
    expect(await counted()).toEqual([3, 3, 1, 0]);
  });
});
