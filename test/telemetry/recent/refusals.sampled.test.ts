// The last refusals: all facts of each are found by its id, and no client pushes out those of others.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { ExchangeRecord } from "../../../src/core/exchange-record.ts";
import type { Decision } from "../../../src/core/policy.ts";
import { Refusals, type RefusalsOf } from "../../../src/telemetry/recent/refusals.ts";
import { type KeptForms, type RefusedRequest, refusedRequest } from "../../../src/telemetry/recent/refused-request.ts";
import { FakeClock } from "../../support/clock.ts";
import { decisionOf } from "../../support/policy.ts";
import { runs } from "../../support/runs.ts";
import { exchangeOf, policy } from "../scrape.ts";

const clock = new FakeClock();
const forms: KeptForms = { clock, targetOf: (target) => target, requestIdOf: ({ requestId }) => requestId };
const throttled = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: clock.nowMs + 1_500 });
const keyOf = (client: number): CounterKey => new CounterKey(0, 0, 0xffff, client, true);

function refusalOf(id: string, client: number, changes: Partial<ExchangeRecord> = {}): ExchangeRecord {
  const decision: Decision = { ...throttled, key: keyOf(client), client: keyOf(client) };
  const at = { startedMs: clock.nowMs - 2, respondedMs: clock.nowMs - 1, endedMs: clock.nowMs };
  const refused = { dispatchedMs: null, answeredMs: null, status: 429, problem: "throttled" } as const;
  return exchangeOf({ id, client: `192.0.2.${client}`, decision, ...at, ...refused, ...changes });
}

function add(refusals: Refusals, exchange: ExchangeRecord, target = "/v2/x", subject: string | null = null): void {
  refusals.add(refusedRequest({ ...exchange, subject }, target, forms));
}

function find(refusals: Refusals, id: string, kind: "id" | "requestId" = "id"): RefusedRequest | null {
  return refusals.last({ kind, id }, 1).refusals[0] ?? null;
}

test("all facts of a refusal are found by its id, as its response told them", () => {
  const refusals = new Refusals(10);
  const key = new CounterKey(1, -2, 3, -4, false);
  const decision: Decision = { ...throttled, key, client: keyOf(7), limit: 2 ** 40, remaining: 3 };
  add(refusals, refusalOf("one", 7, { decision, source: "ext-auth", method: "POST" }), "/v2/transactions", "alice");
  expect(find(refusals, "one")).toEqual({
    ...{ requestId: null },
    ...{ id: "one", atMs: clock.wallMs(), source: "ext-auth", method: "POST", target: "/v2/transactions" },
    clientKey: { a: 0, b: 0, c: 0xffff, d: 7, isAddress: true },
    ...{ route: "/v2/", client: "192.0.2.7", subject: "alice", status: 429, reason: "throttled", policy: "per-ip" },
    ...{
      key: { a: 1, b: -2, c: 3, d: -4, isAddress: false },
      limit: 2 ** 40,
      remaining: 3,
      rule: null,
      brokenRule: null,
      fault: null,
    },
    // The reset is 1.501 s after the response.
    ...{ reset: Math.ceil((clock.wallMs() + 1_501) / 1000), retryAfterSeconds: 2 },
  });
  expect(find(refusals, "two")).toBe(null);
  expect(find(refusals, "")).toBe(null);
});

test.each<[string, Partial<ExchangeRecord>, number | null]>([
  ["a budget for refusals that is used up", { problem: "too_many_refusals" }, 1],
  ["a quota that is free again in a moment", { decision: { ...throttled, resetMs: clock.nowMs } }, 1],
  ["another status", { status: 401, problem: "no_token" }, null],
  ["a client that got no response", { status: 0, respondedMs: null }, null],
])("Retry-After is that of the response: %s", (_, changes, expected) => {
  const refusals = new Refusals(10);
  add(refusals, refusalOf("one", 1, changes));
  expect(find(refusals, "one")).toMatchObject({ retryAfterSeconds: expected, atMs: clock.wallMs() });
});

test("a refusal says which rule has blocked its request, and the next one in its place does not", () => {
  const refusals = new Refusals(1);
  add(refusals, refusalOf("blocked", 1, { status: 403, problem: "blocked", rule: "abuse-1" }));
  expect(find(refusals, "blocked")).toMatchObject({ status: 403, reason: "blocked", rule: "abuse-1" });
  add(refusals, refusalOf("throttled", 1));
  expect(find(refusals, "throttled")?.rule).toBe(null);
});

test("texts are cut to their room, and none reaches into its neighbour", () => {
  const refusals = new Refusals(3);
  const long = (length: number) => "x".repeat(length);
  for (const id of ["before", long(36), "after"]) {
    add(refusals, refusalOf(id, 1, { method: long(40), client: long(60) }), long(300), `${long(95)}é`);
  }
  for (const id of ["before", long(36), "after"]) {
    expect(find(refusals, id)).toMatchObject({
      id,
      method: long(32),
      client: long(48),
      target: long(256),
      subject: long(95),
    });
  }
  add(refusals, refusalOf("short", 1), "/", null);
  expect(find(refusals, "short")).toMatchObject({ target: "/", subject: null, method: "GET", client: "192.0.2.1" });
  expect(find(refusals, "before")).toBe(null);
});

test("of refusals with one id the latest is found, also when the earlier ones go", () => {
  const refusals = new Refusals(4);
  for (let client = 1; client <= 3; client += 1) add(refusals, refusalOf("same", client));
  expect(find(refusals, "same")?.client).toBe("192.0.2.3");
  // The first two leave the ring; the third is found until it leaves, too.
  for (let client = 4; client <= 6; client += 1) add(refusals, refusalOf(`other ${client}`, client));
  expect(find(refusals, "same")?.client).toBe("192.0.2.3");
  add(refusals, refusalOf("other 7", 7));
  expect(find(refusals, "same")).toBe(null);
  add(refusals, refusalOf("same", 8));
  expect(find(refusals, "same")?.client).toBe("192.0.2.8");
});

test("of refusals that came with one id the latest is found, and an id of the gateway's own is not hidden by it", () => {
  const refusals = new Refusals(5);
  add(refusals, refusalOf("own-1", 1));
  for (let client = 2; client <= 4; client += 1)
    add(refusals, refusalOf(`own-${client}`, client, { requestId: "own-1" }));
  expect(find(refusals, "own-1")).toMatchObject({ client: "192.0.2.1", requestId: null });
  const { refusals: found, isComplete } = refusals.last({ kind: "requestId", id: "own-1" }, 1);
  expect(found).toMatchObject([{ id: "own-4", client: "192.0.2.4", requestId: "own-1" }]);
  expect(isComplete).toBe(false);
  for (const id of ["own-", "own-12"]) expect(find(refusals, id, "requestId")).toBe(null);
});

test("when the ring is full, the oldest goes", () => {
  const refusals = new Refusals(1_000);
  for (let i = 0; i < 3_500; i += 1) add(refusals, refusalOf(`id-${i}`, i));
  const found = Array.from({ length: 3_500 }, (_, i) => find(refusals, `id-${i}`) !== null);
  expect([found.indexOf(true), found.lastIndexOf(true), found.filter(Boolean).length]).toEqual([2_500, 3_499, 1_000]);
  expect(refusals.size).toBe(1_000);
});

test("one client that is refused all the time keeps a tenth of a full ring, and pushes out only its own", () => {
  const refusals = new Refusals(1_000);
  // It was alone, and has filled the ring.
  for (let i = 0; i < 5_000; i += 1) add(refusals, refusalOf(`flood-${i}`, 1));
  for (let i = 0; i < 900; i += 1) {
    add(refusals, refusalOf(`calm-${i}`, 2 + i));
    for (let j = 0; j < 10; j += 1) add(refusals, refusalOf(`flood-${i}-${j}`, 1));
  }
  const calm = Array.from({ length: 900 }, (_, i) => find(refusals, `calm-${i}`));
  expect(calm.filter((refusal) => refusal === null)).toEqual([]);
  expect(find(refusals, "flood-899-9")).not.toBe(null);
  expect(find(refusals, "flood-4999")).toBe(null);
  // From now on the calm ones share the rest.
  for (let i = 900; i < 1_000; i += 1) add(refusals, refusalOf(`calm-${i}`, 2 + i));
  expect(find(refusals, "flood-899-9")).not.toBe(null);
  expect([find(refusals, "calm-99"), find(refusals, "calm-100")?.id]).toEqual([null, "calm-100"]);
});

interface Kept {
  readonly id: string;
  readonly client: number;
}

/** What the ring does, in lists that are searched. */
class NaiveRing {
  kept: Kept[] = [];
  /** Clients with more than their share, in the order in which they became so. */
  #heavy: number[] = [];
  readonly #capacity: number;
  readonly #most: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#most = Math.max(1, Math.floor(capacity / 10));
  }

  add(id: string, client: number): void {
    if (this.kept.length === this.#capacity) this.kept.splice(this.#leaving(client), 1);
    this.kept.push({ id, client });
    const heavy = this.#heavy.filter((each) => this.#heldBy(each) > this.#most);
    this.#heavy = this.#heldBy(client) > this.#most && !heavy.includes(client) ? [...heavy, client] : heavy;
  }

  #heldBy(client: number): number {
    return this.kept.filter((each) => each.client === client).length;
  }

  #leaving(client: number): number {
    const [heaviest] = this.#heavy.toSorted((x, y) => this.#heldBy(y) - this.#heldBy(x));
    const payer = this.#heldBy(client) >= this.#most ? client : heaviest;
    return payer === undefined ? 0 : this.kept.findIndex((each) => each.client === payer);
  }
}

test("the ring keeps what a naive one keeps, whoever is refused and whatever the ids are", () => {
  const client = fc.oneof(fc.constant(0), fc.nat({ max: 12 }));
  const refused = fc.array(fc.tuple(fc.nat({ max: 30 }), client), { maxLength: 150 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 45 }), refused, (capacity, all) => {
      const refusals = new Refusals(capacity);
      const naive = new NaiveRing(capacity);
      for (const [id, client] of all) {
        add(refusals, refusalOf(`id-${id}`, client));
        naive.add(`id-${id}`, client);
      }
      expect(refusals.size).toBe(naive.kept.length);
      for (let id = 0; id <= 30; id += 1) {
        const kept = naive.kept.findLast((each) => each.id === `id-${id}`);
        expect(find(refusals, `id-${id}`)?.client).toBe(kept && `192.0.2.${kept.client}`);
      }
    }),
    runs(1_000),
  );
});

test("the refusals of two threads are told by the time, whoever hands them over first", () => {
  const refusals = new Refusals(10);
  for (const atMs of [0, 20, 10, 30]) {
    refusals.add({ ...refusedRequest(refusalOf(`at-${atMs}`, 1), "/", forms), atMs });
  }
  const last = (limit: number) => refusals.last({ kind: "all" }, limit).refusals.map(({ id }) => id);
  expect([last(2), last(9)]).toEqual([
    ["at-30", "at-20"],
    ["at-30", "at-20", "at-10", "at-0"],
  ]);
});

test("another capacity keeps the newest ones, and 0 none", () => {
  const refusals = new Refusals(20);
  for (let i = 0; i < 20; i += 1) add(refusals, refusalOf(`id-${i}`, i));
  const fewer = new Refusals(3, refusals);
  expect([...fewer].map(({ id }) => id)).toEqual(["id-17", "id-18", "id-19"]);
  expect([...new Refusals(50, fewer)]).toEqual([...fewer]);
  expect(new Refusals(0, fewer).size).toBe(0);
});

describe("the last refusals", () => {
  const refusals = new Refusals(9);
  const hash = new CounterKey(1, -2, 3, -4, false);
  for (const [i, client] of [1, 1, 2, 130, 1, 2, 1].entries()) add(refusals, refusalOf(`id-${i}`, client));
  add(refusals, refusalOf("alice-1", 3), "/v2/x", "alice");
  add(refusals, refusalOf("alicia", 3, { decision: { ...throttled, key: hash, client: keyOf(3) } }), "/v2/x", "alicia");
  const network = (d: number) => ({ a: 0, b: 0, c: 0xffff, d });
  const subject = (text: string) => ({ kind: "subject", subject: text }) as const;

  test.each<[string, RefusalsOf, number, string[], boolean]>([
    ["of all", { kind: "all" }, 3, ["alicia", "alice-1", "id-6"], false],
    [
      "of a client",
      { kind: "client", network: network(1), prefixBits: 128 },
      9,
      ["id-6", "id-4", "id-1", "id-0"],
      true,
    ],
    [
      "as many as wanted",
      { kind: "client", network: network(1), prefixBits: 128 },
      4,
      ["id-6", "id-4", "id-1", "id-0"],
      true,
    ],
    ["no more than wanted", { kind: "client", network: network(1), prefixBits: 128 }, 2, ["id-6", "id-4"], false],
    [
      "of a network",
      { kind: "client", network: network(2), prefixBits: 127 },
      9,
      ["alicia", "alice-1", "id-5", "id-2"],
      true,
    ],
    ["of a wide network", { kind: "client", network: network(128), prefixBits: 121 }, 9, ["id-3"], true],
    ["of everything", { kind: "client", network: { a: 0, b: 0, c: 0, d: 0 }, prefixBits: 0 }, 99, ids(), true],
    ["of none", { kind: "client", network: network(9), prefixBits: 128 }, 9, [], true],
    ["of another IPv6 network", { kind: "client", network: { ...network(1), a: 1 }, prefixBits: 128 }, 9, [], true],
    ["of a hash", { kind: "key", key: hash }, 9, ["alicia"], true],
    ["of a hash that is an address", { kind: "key", key: network(1) }, 9, [], true],
    ["of a subject", subject("alice"), 9, ["alice-1"], true],
    ["of the beginning of a subject", subject("alic"), 9, [], true],
    ["of no subject", subject(""), 9, [], true],
  ])("%s", (_, of, limit, expected, isComplete) => {
    const last = refusals.last(of, limit);
    expect([last.refusals.map(({ id }) => id), last.isComplete]).toEqual([expected, isComplete]);
  });

  function ids(): string[] {
    return ["alicia", "alice-1", "id-6", "id-5", "id-4", "id-3", "id-2", "id-1", "id-0"];
  }
});

test("a subject that is longer than its room is found by what was kept of it", () => {
  const refusals = new Refusals(2);
  const long = `${"x".repeat(95)}é`;
  add(refusals, refusalOf("long", 1), "/v2/x", long);
  expect(refusals.last({ kind: "subject", subject: long }, 1).refusals).toMatchObject([{ id: "long" }]);
});
