// Who keeps the rules: what is refused and why, when rules end, and that the threads get each change, in order.
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import {
  maxRules,
  type Rule,
  type RuleChange,
  type RuleCondition,
  type RuleEvent,
  type RuleInput,
  type RulePut,
  type RuleRefused,
} from "../../src/core/rules.ts";
import { RuleBook, type RuleLog } from "../../src/gateway/rule-book.ts";
import { ruleWarnings, untouchedBy } from "../../src/gateway/rule-input.ts";
import { FakeClock } from "../support/clock.ts";
import { turns } from "../support/eventually.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { hiddenTexts, visibleText } from "../support/hidden-characters.ts";
import { slidingPolicy } from "../support/policy.ts";
import { client, ruleOf } from "../support/rule.ts";
import { inFullOr } from "../support/runs.ts";
import { keptLog } from "../telemetry/lines.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** As long as the book waits at most. */
const stepMs = 30_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const perIp = slidingPolicy({ limit: 3, windowMs: 60_000 });
const perToken: Policy = { ...perIp, name: "per-token", key: [{ kind: "token" }] };
const both = [perIp, perToken];
const writer = { name: "ops", address: "198.51.100.9" };
const anyway: RuleCondition = { expectedRevision: null, force: false };
const block: RuleInput = { id: "a", client: "192.0.2.1", action: "block", for: "1h" };

interface Stage {
  readonly restored?: readonly Rule[];
  readonly overrides?: Overrides;
  readonly names?: readonly string[];
  readonly survivesRestart?: boolean;
  readonly log?: (book: RuleBook) => RuleLog;
}

async function stage({ restored = [], overrides = {}, names = [], survivesRestart = true, log }: Stage = {}) {
  const clock = new FakeClock();
  const errors = keptLog();
  const book = new RuleBook({ clock, log: errors.log, restored, survivesRestart });
  /** As a thread has them. */
  const told = new Map<string, Rule>();
  const changes: RuleChange[] = [];
  let gate: Promise<void> = Promise.resolve();
  const settings = testSettings("http://127.0.0.1:1", overrides);
  const carrier = {
    settings,
    listedTokens: () => ({
      ...{ size: 0, endingBefore: () => [], identities: () => [], names: () => new Set(names) },
      ...{ hasDigest: () => false, hasScopes: () => false },
    }),
    async changeRules(change: RuleChange) {
      await gate;
      changes.push(change);
      for (const id of change.removed) told.delete(id);
      for (const rule of change.set) told.set(rule.id, rule);
    },
  };
  await book.publishTo(carrier, log?.(book) ?? null);
  const events: RuleEvent[] = [];
  book.onChange((event) => events.push(event));
  return {
    ...{ book, clock, told, changes, events, errors },
    /** With what the API says of a rule that holds. */
    async put(input: RuleInput, condition: Partial<RuleCondition> = {}) {
      const answer = await book.put(input, writer, { ...anyway, ...condition });
      if (!answer.ok) return answer;
      const context = { settings, listed: carrier.listedTokens() };
      return {
        ...answer,
        ...{ survivesRestart: book.survivesRestart(input.id), isShared: book.isShared(input.id) },
        ...{ untouchedPolicies: untouchedBy(answer.rule, context), warnings: ruleWarnings(answer.rule, context) },
      };
    },
    hold(until: Promise<void>) {
      gate = until;
    },
    /** Both clocks. */
    async pass(ms: number): Promise<void> {
      for (let left = ms; left > 0; left -= stepMs) {
        clock.advance(Math.min(left, stepMs));
        vi.advanceTimersByTime(Math.min(left, stepMs));
      }
      await turns(3);
    },
  };
}

const detailsOf = (answer: RulePut | RuleRefused): readonly string[] => (answer.ok ? [] : answer.details);

describe("a rule is refused", () => {
  const idError = 'id: 1 to 64 letters, digits, ".", "_" or "-" are expected, and not dots alone';
  const limitError = "limit: a whole number from 1 to 1000000000 is expected";
  const forError = 'for: a duration with its unit from 1s to 30d is expected, such as "1h"';
  const noteError = "note: at most 500 characters are expected, and no control, bidi or other invisible characters";
  const whoError = "exactly one of client, token and subject is expected";
  const nameError = "1 to 1024 characters are expected, and no control characters";
  const wrong: readonly (readonly [string, Partial<RuleInput>, string])[] = [
    ["an empty id", { id: "" }, idError],
    ["an id of dots", { id: ".." }, idError],
    ["an id with a slash", { id: "a/b" }, idError],
    ["a long id", { id: "a".repeat(65) }, idError],
    ["nobody", { client: undefined }, whoError],
    ["two", { token: "alice" }, whoError],
    ["no network", { client: "10.0.0.256" }, "client: an address or a network is expected, such as 203.0.113.7"],
    [
      "less than an IPv6 client",
      { client: "2001:db8::7" },
      "client: an IPv6 network of at most /64, because clientAddress.ipv6Prefix makes it one client; " +
        "name the whole network, or raise clientAddress.ipv6Prefix, such as 2001:db8::/64",
    ],
    [
      "an exemption of one translated address, which is compared as it stands",
      { client: "64:ff9b::203.0.113.7", action: "exempt" },
      "client: an IPv6 network of at most /64, because clientAddress.ipv6Prefix makes it one client; " +
        "name the whole network, or raise clientAddress.ipv6Prefix, such as 64:ff9b::/64",
    ],
    [
      "an address with a zone",
      { client: "fe80::1%eth0" },
      "client: an address or a network is expected, such as 203.0.113.7",
    ],
    ["an empty name", { client: undefined, token: "" }, `token: ${nameError}`],
    ["half a character", { client: undefined, subject: "\ud800" }, `subject: ${nameError}`],
    ["another action", { action: "allow" }, "action: one of block, exempt, limit is expected"],
    ["a block by policy", { policy: "per-ip" }, "policy: none is expected, since the action is block"],
    ["an unknown policy", { action: "exempt", policy: "x" }, "policy: there is none of this name; there are per-ip"],
    ["no limit", { action: "limit" }, limitError],
    ["a limit of 0", { action: "limit", limit: 0 }, limitError],
    ["a limit too high", { action: "limit", limit: 1_000_000_001 }, limitError],
    ["half a request", { action: "limit", limit: 1.5 }, limitError],
    ["a limit that is not used", { limit: 5 }, "limit: none is expected, since the action is block"],
    ["too short", { for: "999ms" }, forError],
    ["too long", { for: "721h" }, forError],
    ["no duration", { for: "soon" }, forError],
    ["a long note", { note: "x".repeat(501) }, noteError],
    ...hiddenTexts.map(([what, note]) => [`${what} in its note`, { note }, noteError] as const),
  ];
  test.each(wrong)("with %s", async (_, input, detail) => {
    const { put, book, changes } = await stage({ overrides: { policies: [perIp] } });
    const answer = await put({ ...block, ...input });
    expect(answer).toMatchObject({ ok: false, reason: "invalid", current: null });
    expect(detailsOf(answer)).toEqual([detail]);
    expect([book.list(), book.revision, changes]).toEqual([[], 0, []]);
  });

  const misfits: readonly (readonly [string, readonly Policy[], number, string])[] = [
    ["the limit of one of several", both, 1, "policy: one of per-ip, per-token is expected"],
    [
      "a limit below the cost",
      [{ ...perIp, cost: 2 }],
      1,
      "limit: a whole number from 2 (the cost of per-ip) to 1000000000 is expected",
    ],
    [
      "a limit above what can be charged by status",
      [{ ...perIp, chargeStatuses: [401] }],
      10_001,
      "limit: a whole number from 1 to 10000, since the policy has charge, is expected",
    ],
    [
      "a limit above what can be at once",
      [{ ...perIp, rate: { kind: "concurrency" } }],
      65_536,
      "limit: a whole number from 1 to 65535, since the policy has concurrency, is expected",
    ],
  ];
  test.each(misfits)("with %s", async (_, policies, limit, detail) => {
    const { put } = await stage({ overrides: { policies } });
    expect(detailsOf(await put({ ...block, action: "limit", limit }))).toEqual([detail]);
  });

  test("with everything that is wrong at once", async () => {
    const { put } = await stage();
    const answer = await put({ id: "?", client: "x", action: "y", for: "z", note: "\0" });
    expect(detailsOf(answer)).toHaveLength(5);
  });

  const covered: readonly (readonly [string, string | null, string])[] = [
    ["10.1.0.0/16", null, "10.0.0.0/8 of clientAddress.trustedProxies"],
    ["0.0.0.0/0", null, "10.0.0.0/8 of clientAddress.trustedProxies"],
    ["192.0.2.7", null, "192.0.2.7 of extAuth.trustedCallers"],
    ["2001:db8::/64", null, "2001:db8::5 of extAuth.trustedCallers"],
    ["198.51.0.0/16", "::ffff:198.51.100.9", "198.51.100.9, which is your own address"],
    ["2001:db9::/32", "2001:db9::1", "2001:db9::1, which is your own address"],
  ];
  test.each(covered)("that covers %s, unless it is forced", async (network, address, whom) => {
    const overrides: Overrides = {
      clientAddress: { trustedProxies: ["10.0.0.0/8"] },
      extAuth: { trustedCallers: ["192.0.2.7", "2001:db8::5"] },
    };
    const { book } = await stage({ overrides });
    const input = { ...block, client: network };
    const refused = await book.put(input, { name: "ops", address }, anyway);
    expect(refused).toMatchObject({ ok: false, reason: "needs_force" });
    expect(detailsOf(refused)[0]).toBe(`client: the rule covers ${whom}; set force to true if that is meant`);
    expect(await book.put(input, { name: "ops", address }, { ...anyway, force: true })).toMatchObject({ ok: true });
  });

  test("beyond the most that are kept; one that is there can still be replaced", async () => {
    const restored = Array.from({ length: maxRules }, (_, i) => ruleOf(`r${i}`, client(`10.0.${i >> 8}.${i & 255}`)));
    const { put, told } = await stage({ restored });
    expect(told.size).toBe(maxRules);
    expect(await put(block)).toMatchObject({ ok: false, reason: "full" });
    expect(await put({ ...block, id: "r7" })).toMatchObject({ ok: true });
  });
});

describe("an answer", () => {
  test("has the rule as it is kept, in its canonical form", async () => {
    const { put, clock } = await stage();
    const setMs = clock.wallMs();
    expect(await put({ ...block, client: "::ffff:10.1.2.3/104", note: visibleText })).toEqual({
      ok: true,
      before: null,
      ...{ survivesRestart: true, isShared: null },
      untouchedPolicies: [],
      warnings: [],
      rule: {
        ...{ id: "a", about: client("10.0.0.0/8"), action: "block", policy: null, limit: null },
        ...{ setMs, endsMs: setMs + hourMs, note: visibleText, setBy: "ops", revision: 1 },
      },
    });
  });

  const networks = [
    ["203.0.113.7", "203.0.113.7"],
    ["203.0.113.7/32", "203.0.113.7"],
    ["2001:DB8:0:1::/64", "2001:db8:0:1::/64"],
    ["2001:db8:1:2:3::/32", "2001:db8::/32"],
    ["::/0", "::/0"],
    ["0.0.0.0/0", "0.0.0.0/0"],
  ];
  test.each(networks)("of %s is about %s", async (written, value) => {
    const { put } = await stage();
    const exempt = { ...block, client: written, action: "exempt" };
    expect(await put(exempt, { force: true })).toMatchObject({ rule: { about: { value } } });
  });

  test("that blocks a translated address is about the IPv4 address in it, or the advice would be to block all of them", async () => {
    const { put } = await stage();
    for (const [client, value] of [
      ["64:ff9b::203.0.113.7", "203.0.113.7"],
      ["64:ff9b::/64", "64:ff9b::/64"],
    ]) {
      expect(await put({ ...block, client, id: "t" })).toMatchObject({ rule: { about: { value } } });
    }
  });

  test("says that a restart ends the rule", async () => {
    const { put } = await stage({ survivesRestart: false });
    expect(await put(block)).toMatchObject({ ok: true, survivesRestart: false });
  });

  const verified: Overrides = { auth: { mode: "tokens" }, policies: both };
  const untouched: readonly (readonly [string, Partial<RuleInput>, readonly string[], Overrides])[] = [
    ["a client by all", { action: "exempt" }, [], verified],
    ["a token after its check", { client: undefined, token: "alice", action: "exempt" }, ["per-ip"], verified],
    [
      "a token that nobody verifies",
      { client: undefined, token: "alice", action: "exempt" },
      ["per-ip", "per-token"],
      { policies: both },
    ],
    ["one policy", { client: undefined, token: "alice", action: "exempt", policy: "per-token" }, [], verified],
    ["a limit by another key", { action: "limit", limit: 1, policy: "per-token" }, ["per-token"], verified],
    ["a limit by its key", { action: "limit", limit: 1, policy: "per-ip" }, [], verified],
    ["a block of a token", { client: undefined, token: "alice" }, [], verified],
  ];
  test.each(untouched)("names the policies that are not touched: %s", async (_, input, names, overrides) => {
    const { put } = await stage({ overrides, names: ["alice"] });
    expect(await put({ ...block, ...input })).toMatchObject({ ok: true, untouchedPolicies: names });
  });

  test("warns of a token that is not listed, and of tokens that nobody verifies", async () => {
    const listed = await stage({ overrides: verified, names: ["alice"] });
    const byToken = { ...block, client: undefined, token: "bob" };
    expect(await listed.put(byToken)).toMatchObject({ ok: true, warnings: ["no token of this name is listed"] });
    expect(await listed.put({ ...byToken, token: "alice" })).toMatchObject({ warnings: [] });
    const unverified = await stage();
    const warning = "no token is verified, so nobody is known by this token";
    expect(await unverified.put(byToken)).toMatchObject({ ok: true, warnings: [warning] });
  });

  test("warns of a subject that no listed token stands for", async () => {
    const { put } = await stage({ overrides: verified, names: ["alice"] });
    const bySubject = { ...block, client: undefined, subject: "alic" };
    expect(await put(bySubject)).toMatchObject({ ok: true, warnings: ["no token of this name is listed"] });
    expect(await put({ ...bySubject, subject: "alice" })).toMatchObject({ warnings: [] });
  });

  test("warns of a rule about one policy that changes nothing, and says by what the policy counts", async () => {
    const others: Policy = { ...perIp, name: "others", who: "others" };
    const policies = [others, { ...perToken, key: [{ kind: "subject" }] } as const];
    const { put } = await stage({ overrides: { auth: { mode: "tokens" }, policies }, names: ["alice"] });
    const warningsOf = async (input: Partial<RuleInput>) => put({ ...block, client: undefined, ...input });
    const limit = { action: "limit", limit: 9, policy: "per-token" };
    expect(await warningsOf({ ...limit, subject: "alice" })).toMatchObject({ ok: true, warnings: [] });
    expect(await warningsOf({ ...limit, token: "alice" })).toMatchObject({
      warnings: ["policy per-token counts by subject and not by token, so the rule changes nothing"],
    });
    expect(await warningsOf({ action: "exempt", policy: "others", token: "alice" })).toMatchObject({
      warnings: ["policy others is asked before the token is checked, so the rule changes nothing"],
    });
    expect(await warningsOf({ action: "exempt", token: "alice" })).toMatchObject({ warnings: [] });
  });
});

describe("two people at once", () => {
  test("a rule is replaced or removed only as the writer has seen it", async () => {
    const { put, book } = await stage();
    expect(await put(block, { expectedRevision: 0 })).toMatchObject({ ok: true, rule: { revision: 1 } });
    const taken = await put(block, { expectedRevision: 0 });
    expect(taken).toMatchObject({ ok: false, reason: "changed", current: { revision: 1 } });
    expect(detailsOf(taken)).toEqual(["the rule has revision 1, and not 0"]);
    expect(await put({ ...block, for: "2h" }, { expectedRevision: 1 })).toMatchObject({
      ok: true,
      before: { revision: 1 },
      rule: { revision: 2 },
    });
    expect(await book.remove("a", writer, { expectedRevision: 1 })).toMatchObject({ reason: "changed" });
    expect(await book.remove("a", writer, { expectedRevision: 2 })).toMatchObject({ ok: true, rule: { id: "a" } });
    expect(await book.remove("a", writer, { expectedRevision: null })).toMatchObject({ reason: "unknown" });
    expect(await put(block, { expectedRevision: 2 })).toMatchObject({ reason: "changed", current: null });
    expect([book.revision, book.list()]).toEqual([3, []]);
  });

  test("an answer waits for the threads, and they get the changes in order", async () => {
    const { put, book, told, changes, hold } = await stage();
    const { promise, resolve } = Promise.withResolvers<void>();
    hold(promise);
    let answered = 0;
    const count = (): void => {
      answered += 1;
    };
    const answers = [put(block), put({ ...block, id: "b" }), book.remove("a", writer, anyway)].map((each) =>
      each.then(count),
    );
    await turns(3);
    expect([answered, changes, book.list().length]).toEqual([0, [], 1]);
    resolve();
    await Promise.all(answers);
    expect([answered, [...told.keys()]]).toEqual([3, ["b"]]);
  });
});

describe("the end of a rule", () => {
  test("is when its time is over by the wall clock, and not before", async () => {
    const { put, pass, told, book, events, clock } = await stage();
    await put(block);
    await put({ ...block, id: "b", for: "1s" });
    await pass(999);
    expect([...told.keys()]).toEqual(["a", "b"]);
    await pass(1);
    expect([...told.keys()]).toEqual(["a"]);
    expect(events.at(-1)).toMatchObject({ kind: "ended", rule: { id: "b" }, by: null });
    // A wall clock that is set forward is noticed within half a minute.
    clock.stepWall(hourMs);
    await pass(30_000);
    expect([told.size, book.list(), book.counts()]).toEqual([0, [], { block: 0, exempt: 0, limit: 0 }]);
  });

  test("comes although it is later than a timer can wait for", async () => {
    const { put, pass, clock, told } = await stage();
    await put({ ...block, for: "30d" });
    await pass(dayMs);
    expect(told.size).toBe(1);
    // A timer fires every 30 seconds, so in `npm test` the machine sleeps for most of the days.
    const sleptMs = inFullOr(0, 28 * dayMs);
    clock.advance(sleptMs);
    await pass(29 * dayMs - sleptMs - 1);
    expect(told.size).toBe(1);
    await pass(1);
    expect(told.size).toBe(0);
  });

  test("moves with a replacement", async () => {
    const { put, pass, told } = await stage();
    await put({ ...block, for: "10s" });
    await put({ ...block, for: "1h" });
    await pass(20_000);
    expect(told.size).toBe(1);
    await put({ ...block, for: "5s" });
    await pass(5_000);
    expect(told.size).toBe(0);
  });

  test("of a restored rule counts from the wall clock, and one that is over is dropped", async () => {
    const clock = new FakeClock();
    const nowMs = clock.wallMs();
    const restored = [
      ruleOf("over", client("192.0.2.1"), { endsMs: nowMs, revision: 9 }),
      ruleOf("soon", client("192.0.2.2"), { endsMs: nowMs + 1_000, revision: 4 }),
    ];
    const { told, pass, put } = await stage({ restored });
    expect([...told.keys()]).toEqual(["soon"]);
    expect(await put(block)).toMatchObject({ rule: { revision: 10 } });
    await pass(1_000);
    expect([...told.keys()]).toEqual(["a"]);
  });

  test("of thousands at once does not come in one turn", async () => {
    const endsMs = new FakeClock().wallMs() + 1_000;
    const restored = Array.from({ length: 1_000 }, (_, i) =>
      ruleOf(`r${i}`, client(`10.0.${i >> 8}.${i & 255}`), { endsMs }),
    );
    const { told, pass } = await stage({ restored });
    await pass(1_000);
    expect(told.size).toBeLessThan(1_000);
    expect(told.size).toBeGreaterThan(0);
    await pass(10);
    expect(told.size).toBe(0);
  });
});

describe("what another gateway has changed", () => {
  test("is taken over with its revisions, unless what is here is newer or it is over", async () => {
    const { book, put, told, events, clock } = await stage();
    await put(block);
    const over = ruleOf("over", client("192.0.2.9"), { endsMs: clock.wallMs() });
    const older = ruleOf("a", client("192.0.2.8"), { revision: 0 });
    const other = ruleOf("b", client("192.0.2.7"), { revision: 7 });
    await book.take({ set: [over, older, other], removed: [] });
    expect([...told.values()].map(({ id, about }) => [id, about.value])).toEqual([
      ["a", "192.0.2.1"],
      ["b", "192.0.2.7"],
    ]);
    expect(events.at(-1)).toMatchObject({ kind: "set", rule: { id: "b" }, by: null, isForeign: true });
    expect(await put({ ...block, id: "c" })).toMatchObject({ rule: { revision: 8 } });
    await book.take({ set: [], removed: ["a", "unknown"] });
    expect([...told.keys()]).toEqual(["b", "c"]);
    expect(book.revision).toBe(9);
  });
});

describe("where gateways share rules", () => {
  /** A log that says what it is told to say, and hands back what is written. */
  function shared(answers: Partial<RuleLog> = {}, restored: readonly Rule[] = []) {
    return stage({ restored, survivesRestart: false, log: (book) => logOf(book, answers) });
  }

  const logOf = (book: RuleBook, answers: Partial<RuleLog>): RuleLog => ({
    async put(rule) {
      void book.take({ set: [{ ...rule, revision: 70 }], removed: [] });
      return { outcome: "written", revision: 70, isShared: true };
    },
    async remove(id) {
      void book.take({ set: [], removed: [id] });
      return { outcome: "written", revision: 71, isShared: true };
    },
    isTold: () => true,
    readNow: async () => true,
    ...answers,
  });

  test("what is set here has the revision of the log, and is told as set here", async () => {
    const { book, put, told, events } = await shared();
    expect(await put(block)).toMatchObject({ rule: { revision: 70 }, before: null, isShared: true });
    expect([...told.keys()]).toEqual(["a"]);
    expect(await book.remove("a", writer, anyway)).toMatchObject({ ok: true, rule: { revision: 70 } });
    expect(events.map(({ kind, by, isForeign }) => [kind, by, isForeign])).toEqual([
      ["set", "ops", false],
      ["removed", "ops", false],
    ]);
    expect([told.size, book.list()]).toEqual([0, []]);
  });

  test("a rule survives a restart if the log has it", async () => {
    const told = await shared();
    expect(await told.put(block)).toMatchObject({ survivesRestart: true });
    const alone = await shared({ isTold: () => false });
    expect(await alone.put(block)).toMatchObject({ survivesRestart: false, isShared: false });
  });

  test.each([
    [3, 5],
    [0, 5],
    [3, 0],
  ])("if %i is expected and the log has %i, nothing is set", async (expectedRevision, revision) => {
    const there = ruleOf("a", client("192.0.2.8"), { revision });
    const asked: unknown[] = [];
    const { put, book, told } = await stage({
      restored: [ruleOf("a", client("192.0.2.8"), { revision: 3 })],
      log: (book) =>
        logOf(book, {
          async put(_, expected) {
            asked.push(expected);
            return { outcome: "conflict", revision };
          },
          async readNow() {
            void book.take(revision === 0 ? { set: [], removed: ["a"] } : { set: [there], removed: [] });
            return true;
          },
        }),
    });
    const current = revision === 0 ? null : there;
    expect(await put(block, { expectedRevision })).toMatchObject({ ok: false, reason: "changed", current });
    expect(asked).toEqual([expectedRevision === 0 ? "absent" : expectedRevision]);
    expect([book.list().length, told.size]).toEqual(revision === 0 ? [0, 0] : [1, 1]);
  });

  test("a rule that is gone from the log is not removed again", async () => {
    const { put, book, told } = await shared({
      remove: async () => ({ outcome: "conflict", revision: 0 }),
      async readNow() {
        void book.take({ set: [], removed: ["a"] });
        return true;
      },
    });
    await put(block);
    expect(await book.remove("a", writer, anyway)).toMatchObject({ ok: false, reason: "unknown", current: null });
    expect(told.size).toBe(0);
  });

  test("a log that is full refuses a rule, and one that has another rule of this instant replaces it", async () => {
    const { book, put, told } = await shared({ put: async () => ({ outcome: "full" }) });
    expect(await put(block)).toMatchObject({ ok: false, reason: "full" });
    await book.take({ set: [ruleOf("a", client("192.0.2.8"), { revision: 5 })], removed: [] });
    await book.take({ set: [ruleOf("a", client("192.0.2.9"), { revision: 5 })], removed: [] });
    expect([...told.values()].map(({ about }) => about.value)).toEqual(["192.0.2.9"]);
  });

  test("a log that is read whole removes what it does not have", async () => {
    const restored = ["a", "b"].map((id) => ruleOf(id, client("192.0.2.8"), { revision: 3 }));
    const { book, told, events } = await shared({}, restored);
    await book.take({ set: restored.slice(1), removed: [] }, true);
    expect([...told.keys()]).toEqual(["b"]);
    expect(events.map(({ kind, rule, isForeign }) => [kind, rule.id, isForeign])).toEqual([["removed", "a", true]]);
  });
});

test("each change is told once to whoever listens", async () => {
  const { book, put, events } = await stage();
  await put(block);
  await put({ ...block, note: "again" });
  await put({ ...block, note: "?\0" });
  await book.remove("a", { name: "socket", address: null }, anyway);
  expect(events.map(({ kind, by, rule, before, isForeign }) => [kind, by, rule.note, before?.note, isForeign])).toEqual(
    [
      ["set", "ops", "", undefined, false],
      ["replaced", "ops", "again", "", false],
      ["removed", "socket", "again", undefined, false],
    ],
  );
});

test("a listener that fails keeps a change from no thread and from no other listener", async () => {
  const { book, put, told, events, errors } = await stage();
  book.onChange(() => {
    throw new Error("a bug");
  });
  const later: string[] = [];
  book.onChange(({ kind }) => later.push(kind));
  expect(await put(block)).toMatchObject({ ok: true });
  expect([...told.keys()]).toEqual(["a"]);
  expect(await book.remove("a", writer, anyway)).toMatchObject({ ok: true });
  expect(told.size).toBe(0);
  expect(events.map(({ kind }) => kind)).toEqual(["set", "removed"]);
  expect(later).toEqual(["set", "removed"]);
  expect(errors.lines().map(({ msg }) => msg)).toEqual(["internal error", "internal error"]);
});

test("after any changes the threads have what the book has, and it asks itself the same", async () => {
  const step = fc.oneof(
    fc.record({ put: fc.nat({ max: 9 }), seconds: fc.integer({ min: 1, max: 40 }) }),
    fc.record({ remove: fc.nat({ max: 9 }) }),
    fc.record({ pass: fc.integer({ min: 1, max: 60_000 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { book, put, pass, told, clock } = await stage();
      const model = new Map<string, number>();
      for (const each of steps) {
        if ("put" in each) {
          await put({ ...block, id: `${each.put}`, for: `${each.seconds}s` });
          model.set(`${each.put}`, clock.wallMs() + each.seconds * 1000);
        } else if ("remove" in each) {
          await book.remove(`${each.remove}`, writer, anyway);
          model.delete(`${each.remove}`);
        } else await pass(each.pass);
        for (const [id, endsMs] of model) if (endsMs <= clock.wallMs()) model.delete(id);
        const ids = [...model.keys()].sort();
        expect([...told.keys()].sort()).toEqual(ids);
        expect(
          book
            .list()
            .map(({ id }) => id)
            .sort(),
        ).toEqual(ids);
        expect(book.inForce.isEmpty).toBe(ids.length === 0);
      }
      book.close();
    }),
    { numRuns: 100 },
  );
});
