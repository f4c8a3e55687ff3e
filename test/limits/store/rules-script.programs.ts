// The script of rules on a real server: it answers as its model does, which the simulation stands on, and holds its bounds.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ForgivenKey, Rule } from "../../../src/core/rules.ts";
import {
  decodeRulesAnswer,
  type Expected,
  encodeRulesCall,
  pageOf,
  type RulesAnswer,
  type RulesOperation,
  resultOf,
  roomOf,
  rulesKeys,
} from "../../../src/limits/store/rules-call.ts";
import { rulesScript } from "../../../src/limits/store/rules-script.ts";
import { RulesModel } from "../../simulation/rules-model.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { RedisClient } from "../../support/redis-client.ts";
import { redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";

const cleanup = useCleanup();
const keys = rulesKeys("headgate:");
const startMs = 1_800_000_000_000;
/** So many of each kind at most, so that a test reaches them. */
const few = { rules: 5, forgiven: 3, removed: 3 };

/** With a clock of the test, as its last argument. */
const clockedScript = rulesScript.replace(
  "redis.call('TIME')",
  "{string.sub(ARGV[#ARGV], 1, -7), string.sub(ARGV[#ARGV], -6)}",
);
const fewScript = clockedScript.replace(
  /mostEnded = \d+, \d+, \d+,/,
  `mostEnded = ${few.rules}, ${few.forgiven}, ${few.removed},`,
);

function ruleOf(given: Partial<Rule> = {}): Rule {
  return {
    id: "one",
    about: { kind: "client", value: "192.0.2.1" },
    action: "block",
    policy: null,
    limit: null,
    setMs: startMs,
    endsMs: startMs + 60_000,
    note: "a note",
    setBy: "socket",
    revision: 0,
    ...given,
  };
}

class Log {
  readonly client: RedisClient;
  readonly #sha: string;
  nowUs = startMs * 1000;
  known = 0;
  origin = "first";

  private constructor(client: RedisClient, sha: string) {
    this.client = client;
    this.#sha = sha;
  }

  static async open(script = clockedScript): Promise<Log> {
    const server = await startRedis();
    cleanup(() => server.stop());
    const client = await RedisClient.open(server.port);
    cleanup(() => client.close());
    return new Log(client, String(await client.ask("SCRIPT", "LOAD", script)));
  }

  async ask(args: readonly string[]): Promise<unknown> {
    return this.client.ask("EVALSHA", this.#sha, keys.length, ...keys, ...args, this.nowUs);
  }

  async call(operation: RulesOperation): Promise<RulesAnswer> {
    this.nowUs += 1000;
    const caller = { origin: this.origin, known: this.known, wallMs: this.nowUs / 1000 };
    return decodeRulesAnswer(await this.ask(encodeRulesCall(operation, caller)));
  }

  /** The names of what was written since a place, a removed rule with a minus. */
  async read(after = 0): Promise<readonly string[]> {
    return pageOf(await this.call({ operation: "read", after })).entries.map((entry) => {
      if (entry.kind === "notice") return entry.notice.reason;
      return entry.kind === "forgiven" ? entry.name.value : entry.rule === null ? `-${entry.id}` : entry.id;
    });
  }
}

const ids = fc.constantFrom("a", "b", "c", "d", "e", "f", "g");
const operation: fc.Arbitrary<(revisions: readonly number[]) => RulesOperation> = fc.oneof(
  fc.record({ id: ids, which: fc.nat({ max: 6 }), lastsMs: fc.constantFrom(5, 2_000, 1_000_000) }).map(
    ({ id, which, lastsMs }) =>
      (revisions: readonly number[]): RulesOperation => ({
        operation: "put",
        rule: ruleOf({
          id,
          endsMs: startMs + lastsMs,
          revision: Math.max(1, (revisions.at(-1) ?? startMs) + which - 2),
        }),
        expected: which === 0 ? "absent" : which < 4 ? "any" : (revisions.at(-which) ?? 0),
      }),
  ),
  fc
    .record({ id: ids, which: fc.nat({ max: 3 }) })
    .map(({ id, which }) => (revisions: readonly number[]): RulesOperation => {
      const revision = (revisions.at(-1) ?? 0) + 3;
      return { operation: "remove", id, revision, expected: which < 2 ? "any" : (revisions.at(-which) ?? 0) };
    }),
  fc
    .record({ value: ids, lastsMs: fc.constantFrom(5, 2_000, 900_000, 1_000_000) })
    .map(({ value, lastsMs }) => (): RulesOperation => {
      return { operation: "forgive", name: { kind: "client", value }, untilMs: startMs + lastsMs };
    }),
  fc.nat({ max: 9 }).map((back) => (revisions: readonly number[]): RulesOperation => {
    return { operation: "read", after: revisions.at(-back) ?? 0 };
  }),
  fc
    .array(fc.record({ id: ids, which: fc.nat({ max: 4 }), kind: fc.nat({ max: 2 }) }), { minLength: 1, maxLength: 3 })
    .map((drawn) => (revisions: readonly number[]): RulesOperation => {
      const entries = drawn.map(({ id, which, kind }) => {
        const revision = (revisions.at(-1 - which) ?? 1) + which;
        const name: ForgivenKey = { kind: "client", value: id };
        if (kind === 0) return { kind: "forgiven" as const, name, untilMs: startMs + 900_000, revision };
        return { kind: "rule" as const, id, rule: kind === 1 ? ruleOf({ id }) : null, revision };
      });
      return { operation: "again", entries };
    }),
);

describe.skipIf(skipRedis)(`the script of rules${redisNeeded}`, () => {
  test("answers as its model does to any sequence of calls", async () => {
    const log = await Log.open(fewScript);
    const calls = fc.array(
      fc.record({ operation, passedUs: fc.constantFrom(0, 1, 900, 3_000, 1_000_000, -2_000_000), known: fc.boolean() }),
      { minLength: 1, maxLength: 40, size: "max" },
    );
    await fc.assert(
      fc.asyncProperty(calls, async (draws) => {
        await log.client.ask("FLUSHALL", "SYNC");
        log.nowUs = startMs * 1000;
        const model = new RulesModel(() => log.nowUs, few);
        const revisions: number[] = [];
        for (const { operation: of, passedUs, known } of draws) {
          log.nowUs += passedUs;
          const caller = { origin: "o", known: known ? (revisions.at(-1) ?? 0) + 3 : 0, wallMs: log.nowUs / 1000 };
          const args = encodeRulesCall(of(revisions), caller);
          const answer = decodeRulesAnswer(await log.ask(args));
          expect(answer).toEqual(decodeRulesAnswer(model.call(args)));
          if (args[0] !== "read" && args[0] !== "again") revisions.push(resultRevision(answer));
        }
      }),
      { numRuns: 150 },
    );
  });

  test("a rule is set only over what was expected, and only by a higher revision", async () => {
    const log = await Log.open();
    const put = async (expected: Expected, revision: number) =>
      resultOf(await log.call({ operation: "put", rule: ruleOf({ revision }), expected }));
    expect(await put("absent", 50)).toEqual({ outcome: "written", revision: 50 });
    expect(await put("absent", 60)).toEqual({ outcome: "conflict", revision: 50 });
    expect(await put(49, 60)).toEqual({ outcome: "conflict", revision: 50 });
    // A message that was given up comes late.
    expect(await put("any", 50)).toEqual({ outcome: "old", revision: 50 });
    expect(await put(50, 51)).toEqual({ outcome: "written", revision: 51 });
    const remove = async (expected: Expected, revision: number) =>
      resultOf(await log.call({ operation: "remove", id: "one", revision, expected }));
    expect(await remove(50, 60)).toEqual({ outcome: "conflict", revision: 51 });
    expect(await remove("any", 51)).toEqual({ outcome: "old", revision: 51 });
    expect(await remove("any", 60)).toEqual({ outcome: "written", revision: 60 });
    expect(await remove("any", 70)).toEqual({ outcome: "conflict", revision: 0 });
    expect(await put("absent", 60)).toEqual({ outcome: "old", revision: 60 });
    expect(await put("absent", 61)).toEqual({ outcome: "written", revision: 61 });
    expect(await log.read()).toEqual(["one"]);
  });

  test("a place is later than any that a gateway has seen, also when the clock was set back or the store is another", async () => {
    const log = await Log.open();
    const put = async (revision: number) =>
      (await log.call({ operation: "put", rule: ruleOf({ revision }), expected: "any" })).last;
    const first = await put(1);
    expect(first).toBeGreaterThanOrEqual(log.nowUs);
    log.nowUs -= 5_000_000;
    expect(await put(2)).toBe(first + 1);
    log.known = first + 9_000_000;
    expect(await put(3)).toBe(log.known + 1);
    expect(await put(log.known + 50)).toBe(log.known + 50);
  });

  test("a forgiveness that is sent twice, or late, has the place of the first, or of the one that followed", async () => {
    const log = await Log.open();
    const forgive = async (untilMs: number) =>
      resultOf(await log.call({ operation: "forgive", name: { kind: "client", value: "192.0.2.1" }, untilMs }));
    const first = await forgive(startMs + 1_000_000);
    expect(await forgive(startMs + 1_000_000)).toEqual(first);
    const second = await forgive(startMs + 1_000_001);
    expect(second).not.toEqual(first);
    expect(await forgive(startMs + 1_000_000)).toEqual(second);
  });

  test("what was told again does not replace what is newer", async () => {
    const log = await Log.open();
    const revision = 50;
    await log.call({ operation: "put", rule: ruleOf({ note: "new", revision }), expected: "any" });
    const tell = async (rule: Rule | null, of: number) =>
      roomOf(await log.call({ operation: "again", entries: [{ kind: "rule", id: "one", rule, revision: of }] }));
    expect(await tell(ruleOf({ note: "old" }), revision - 1)).toEqual([true]);
    expect(await tell(null, revision - 1)).toEqual([true]);
    const [entry] = pageOf(await log.call({ operation: "read", after: 0 })).entries;
    expect(entry).toMatchObject({ rule: { note: "new", revision }, isNew: true });
    await tell(null, revision + 1);
    expect(await log.read()).toEqual(["-one"]);
  });

  test("pages are bounded, and rules that have ended are removed", async () => {
    const log = await Log.open();
    for (let i = 0; i < 250; i += 1)
      await log.call({
        operation: "put",
        rule: ruleOf({ id: `r${i}`, endsMs: startMs + 5_000, revision: 1 }),
        expected: "any",
      });
    const page = pageOf(await log.call({ operation: "read", after: 0 }));
    expect([page.entries.length, page.hasMore]).toEqual([200, true]);
    expect(await log.read(page.lastPlace)).toHaveLength(50);
    log.nowUs += 6_000_000;
    const last = (await log.call({ operation: "read", after: page.lastPlace })).last;
    for (let i = 0; i < 3; i += 1) await log.read();
    // It is as if they had been removed: each has a later place.
    expect(await log.read(last - 100)).toEqual(Array.from({ length: 200 }, () => expect.stringMatching(/^-r/)));
    expect(await log.client.ask("ZCARD", keys[2] ?? "")).toBe(0);
  });

  test("begins anew with another origin if a key of it is gone", async () => {
    const log = await Log.open();
    const rule = ruleOf({ revision: 1 });
    const before = await log.call({ operation: "put", rule, expected: "any" });
    for (const key of keys.slice(0, 3)) {
      await log.client.ask("DEL", key);
      const after = await log.call({ operation: "put", rule, expected: "absent" });
      expect(resultOf(after).outcome).toBe("written");
      expect(after.origin).not.toBe(before.origin);
      expect(after.last).toBeGreaterThan(before.last);
    }
  });

  test("rules and removals are bounded, and one rule too many is refused", async () => {
    const log = await Log.open(rulesScript);
    const entries = (from: number, rule: (id: string) => Rule | null) =>
      Array.from({ length: 200 }, (_, i) => {
        const id = `r${from + i}`;
        return { kind: "rule" as const, id, rule: rule(id), revision: from + i + 1 };
      });
    const ends = Date.now() + 1_000_000;
    for (let from = 0; from < 10_000; from += 200)
      await log.call({ operation: "again", entries: entries(from, (id) => ruleOf({ id, endsMs: ends })) });
    for (let from = 10_000; from < 20_200; from += 200)
      await log.call({ operation: "again", entries: entries(from, () => null) });
    const answer = await log.call({ operation: "read", after: 0 });
    expect(answer.floor).toBeGreaterThan(0);
    expect(
      resultOf(await log.call({ operation: "put", rule: ruleOf({ id: "x", revision: 1 }), expected: "any" })),
    ).toEqual({
      outcome: "full",
    });
    expect(
      resultOf(await log.call({ operation: "put", rule: ruleOf({ id: "r1", revision: 1e6 }), expected: "any" }))
        .outcome,
    ).toBe("written");
    expect(await log.client.ask("ZCARD", keys[4] ?? "")).toBe(10_000);
  });
});

function resultRevision({ values }: RulesAnswer): number {
  return Number(values[1] ?? 0);
}
