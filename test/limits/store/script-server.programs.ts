// The script on a real server: what depends on the server and its clock, and cannot be seen in a model.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { GatewaysAnswer, ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import { eventually } from "../../support/eventually.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { aMark, counterOf, itemOf, leaseId, RealScript, startUs } from "./real-script.ts";

const [one, other] = ["headgate:1:{a0}:s/one/address", "headgate:1:{a0}:s/other/address"];
const gateway = "gateway-aaaa";

describe.skipIf(skipRedis)(`the script on a real server${redisNeeded}`, () => {
  let server: RedisServer;
  let script: RealScript;

  beforeAll(async () => {
    server = await startRedis();
    script = await RealScript.open(server.port);
  });
  beforeEach(async () => void (await script.client.ask("FLUSHALL")));
  afterAll(async () => {
    script.client.close();
    await server.stop();
  });

  const ask = (...args: (string | number)[]) => script.client.ask(...args);
  /** All members and scores of the keys. */
  const contents = async () => [
    await ask("ZRANGE", one, 0, -1, "WITHSCORES"),
    await ask("ZRANGE", other, 0, -1, "WITHSCORES"),
  ];

  test("grants the limit, then says when to come again", async () => {
    const answers: ScriptAnswer[] = [];
    for (let i = 0; i < 5; i += 1) answers.push(await script.call([itemOf({ key: one })]));
    const counted = answers.map((answer) => counterOf(answer));
    expect(counted.map(({ granted, free, isNew }) => [granted, free, isNew])).toEqual([
      [1, 2, true],
      [1, 1, false],
      [1, 0, false],
      [0, 0, false],
      [0, 0, false],
    ]);
    // The first unit counts for the lease and the window.
    const freeUs = (answers[0]?.timeUs ?? 0) + 60_015_000;
    for (const answer of answers.slice(3)) {
      const { fitsUs, resetUs } = counterOf(answer);
      expect([answer.timeUs + fitsUs, answer.timeUs + resetUs]).toEqual([freeUs, freeUs]);
    }
  });

  test("what stands under keys of this version is what other gateways read there, or the version is another one", async () => {
    const id = (number: number) => `${gateway}thread-aaa${number}`;
    const [slots, long, list, secret] = [
      `${one}/slots`,
      `${one}/long`,
      "headgate:1:{0}:gateways",
      "headgate:1:{secret}:secret",
    ];
    const held = { key: one, limit: 10 };
    const period = {
      item: "calendar",
      key: other,
      limit: 10,
      untilUs: startUs + 60_000_000,
      keepUs: 1_000_000,
    } as const;
    const hour = { key: long, limit: 1_000, windowUs: 3_600_000_000 };
    await script.callAt(startUs, [
      itemOf({ ...held, asked: 3, id: id(1) }),
      itemOf({ ...period, asked: 3, id: id(2) }),
      itemOf({ item: "concurrency", key: slots, id: id(3) }),
      itemOf({ ...hour, asked: 3, id: id(6) }),
      { item: "gateways", key: list, gateway, silenceUs: 30_000_000, ageUs: 0 },
      { item: "secret", key: secret, proposed: "aa11" },
    ]);
    const report = (number: number) => [{ id: id(number), granted: 3, spent: 2, ageUs: 1_000 }];
    await script.callAt(startUs + 2_000, [
      itemOf({ ...held, id: `${id(4)}~`, reports: report(1), told: { units: 5, ageUs: 1_500 } }),
      itemOf({ ...period, id: id(5), reports: report(2) }),
      itemOf({ ...hour, asked: 0, reports: report(6) }),
      { item: "forget", key: `${one}/forgotten`, markKey: aMark, seq: 7, keepMs: 60_000 },
    ]);
    const there = async (key: string) =>
      String(await ask("ZRANGE", key, 0, -1, "WITHSCORES")).replace(/,(-?\d+)(,|$)/g, " $1\n");
    expect((await Promise.all([one, other, slots, long, list].map(there))).join("\n")).toBe(`expiry -1800000069516875
clock -1800000000002000
units -6
gateway-aaaathread-aaa4~.told/3 1800000060000500
gateway-aaaathread-aaa1/2 1800000060001000
gateway-aaaathread-aaa4~/1 1800000060017000

expiry -1800000061000000
clock -1800000000002000
units -3
gateway-aaaathread-aaa5/1 1800000000017000
=gateway-aaaa 4000000000000002

expiry -1800000002016875
clock -1800000000000000
units -1
gateway-aaaathread-aaa3/1 1800000000015000

expiry -1800004055601875
clock -1800000000002000
units -2
gateway-aaaa!1800003603600000/2 1800003603600000

gateway-aaaa/1800000000000000 0
gateway-aaaa 1800000000000000
`);
    expect(await Promise.all([secret, aMark].map((key) => ask("GET", key)))).toEqual(["aa11", "7"]);
  });

  test("a call that changes nothing writes nothing", async () => {
    for (let i = 0; i < 3; i += 1) await script.call([itemOf({ key: one })]);
    const before = await contents();
    const offset = async () =>
      /total_writes_processed|rdb_changes_since_last_save:(\d+)/.exec(server.cli("INFO", "persistence"))?.[1];
    const changes = await offset();
    expect(counterOf(await script.call([itemOf({ key: one })])).granted).toBe(0);
    expect(await contents()).toEqual(before);
    expect(await offset()).toBe(changes);
  });

  test("a full store refuses the whole call, whatever it would write", async () => {
    const short = { key: one, windowUs: 1_000, leaseUs: 1_000 };
    const held = leaseId(gateway);
    await script.call([itemOf({ key: other, id: held, asked: 2 })]);
    await script.call([itemOf(short)]);
    await eventually(
      "the unit has expired",
      async () => counterOf(await script.call([itemOf({ ...short, asked: 0 })])).free === 3,
    );
    // An entry that has expired, and is not dropped yet.
    await script.call([itemOf(short)]);
    const startMs = performance.now();
    await eventually("the other unit has expired", () => performance.now() > startMs + 3);
    const before = await contents();
    server.cli("CONFIG", "SET", "maxmemory", "1");
    const returned = { id: held, granted: 2, spent: 1, ageUs: 0 };
    const calls = {
      "drops, then grants": [itemOf(short)],
      "drops only": [itemOf({ ...short, asked: 0 })],
      "grants a new key": [itemOf({ key: `${other}/new` })],
      "takes back": [itemOf({ key: other, asked: 0, reports: [returned] })],
      "is told": [itemOf({ key: other, asked: 0, told: { units: 3, ageUs: 0 } })],
      "is told of a new key": [itemOf({ key: `${other}/new`, asked: 0, told: { units: 3, ageUs: 0 } })],
      "takes back, then grants another": [itemOf({ key: other, asked: 0, reports: [returned] }), itemOf(short)],
      "renews a slot": [
        itemOf({ item: "concurrency", key: `${other}/n`, asked: 0, reports: [{ ...returned, spent: 2 }] }),
      ],
      "lists a gateway": [{ item: "gateways" as const, key: "{0}:gateways", gateway, silenceUs: 1, ageUs: 0 }],
      "forgets a counter": [{ item: "forget" as const, key: other, markKey: "{0}:m", seq: 1, keepMs: 1_000 }],
      "sets the secret": [{ item: "secret" as const, key: "{0}:secret", proposed: "ff" }],
    };
    try {
      for (const [what, items] of Object.entries(calls)) await expect(script.call(items), what).rejects.toThrow(/OOM/);
      expect(await contents()).toEqual(before);
      expect(await ask("DBSIZE")).toBe(2);
    } finally {
      server.cli("CONFIG", "SET", "maxmemory", "0");
    }
  });

  test("a key of another type is said to be foreign, stays as it is, and the others of its call are counted", async () => {
    await ask("SET", one, "text");
    const reports = [{ id: "x", granted: 2, spent: 1, ageUs: 3 }];
    const foreign = [
      itemOf({ key: one }),
      itemOf({ key: one, reports, told: { units: 3, ageUs: 0 } }),
      itemOf({ item: "calendar", key: one, untilUs: Number.MAX_SAFE_INTEGER }),
    ];
    const units = { granted: 0, askedGranted: 0, ahead: 0, free: 0 };
    const times = { resetUs: -1, fitsUs: -1, leasedUs: -1 };
    const nothing = {
      item: "counter",
      isInPeriod: true,
      isForeign: true,
      isVoid: false,
      ...units,
      ...times,
      isNew: false,
    };
    for (const item of foreign) {
      const { items } = await script.call([
        itemOf({ key: other, limit: 9 }),
        item,
        itemOf({ key: `${other}/2`, limit: 9 }),
      ]);
      expect(items).toMatchObject([{ granted: 1 }, nothing, { granted: 1 }]);
    }
    expect(await ask("GET", one)).toBe("text");
  });

  test("a key is there until nothing in it counts, and goes then", async () => {
    const windowUs = 300_000;
    await script.call([itemOf({ key: one, windowUs })]);
    await script.call([itemOf({ item: "concurrency", key: other })]);
    const leftMs = async (key: string) => Number(await ask("PTTL", key));
    for (const [key, leastMs] of [
      [one, 1_315],
      [other, 1_015],
    ] as const) {
      expect(await leftMs(key)).toBeGreaterThan(leastMs - 50);
      expect(await leftMs(key)).toBeLessThan(2 * leastMs + 1_000);
    }
    // A shorter window does not shorten it, a longer one does lengthen it.
    await script.call([itemOf({ key: one, windowUs: 1_000 })]);
    expect(await leftMs(one)).toBeGreaterThan(1_200);
    await script.call([itemOf({ key: one, windowUs: 60_000_000 })]);
    expect(await leftMs(one)).toBeGreaterThan(61_000);
  });

  test("a calendar key is there after its period for as long as it is asked to", async () => {
    const nowUs = async () => (await script.call([])).timeUs;
    const keepUs = 60_000_000;
    const untilUs = (await nowUs()) + 59_000_000;
    await script.call([itemOf({ item: "calendar", key: one, untilUs, keepUs })]);
    const beforeUs = await nowUs();
    const leftUs = 1_000 * Number(await ask("PTTL", one));
    const afterUs = await nowUs();
    // The server reads its clock between the two, and rounds to milliseconds twice.
    expect(beforeUs + leftUs).toBeLessThanOrEqual(untilUs + keepUs + 2_000);
    expect(afterUs + leftUs).toBeGreaterThanOrEqual(untilUs + keepUs - 2_000);
  });

  test("the secret of the first is the secret of all", async () => {
    const secret = (proposed: string) => script.call([{ item: "secret", key: "headgate:1:{secret}:secret", proposed }]);
    expect((await secret("aa11")).items).toEqual([{ item: "secret", value: "aa11" }]);
    expect((await secret("bb22")).items).toEqual([{ item: "secret", value: "aa11" }]);
  });

  test("the list has the gateways that are not silent, and has another origin once it was lost", async () => {
    const key = "headgate:1:{0}:gateways";
    const beat = async (name: string, silenceUs = 30_000_000, ageUs = 0) =>
      onlyList(await script.call([{ item: "gateways", key, gateway: name, silenceUs, ageUs }]));
    const first = await beat("a");
    expect(first).toEqual({ item: "gateways", origin: expect.stringMatching(/^a\/\d+$/), gateways: 1 });
    expect(await beat("b")).toEqual({ ...first, gateways: 2 });
    expect(await beat("a")).toEqual({ ...first, gateways: 2 });
    await ask("FLUSHALL");
    const second = await beat("a");
    expect(second).toEqual({ ...first, origin: expect.not.stringMatching(first?.origin ?? "") });
    await beat("b");
    await eventually("b is gone", async () => {
      return (await beat("a", 1_000))?.gateways === 1;
    });
    expect(Number(await ask("PTTL", key))).toBeGreaterThan(3_500_000);
    // One that leaves was heard last long ago.
    expect(await beat("b", 30_000_000, 29_900_000)).toEqual({ ...second, gateways: 2 });
    await eventually("b has left", async () => {
      return (await beat("a"))?.gateways === 1;
    });
  });
});

function onlyList({ items: [answer] }: ScriptAnswer): GatewaysAnswer | null {
  return answer?.item === "gateways" ? answer : null;
}
