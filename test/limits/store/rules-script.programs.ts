// The script of rules on a real server: it answers as its model does, which the simulation stands on, and holds its bounds.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Rule } from "../../../src/core/rules.ts";
import {
  decodeRulesAnswer,
  type Expected,
  encodeRulesCall,
  forgivenEntry,
  pageOf,
  type ReadEntry,
  type RulesAnswer,
  resultsOf,
  ruleEntry,
  rulesKeys,
  type WrittenEntry,
  type WrittenResult,
} from "../../../src/limits/store/rules-call.ts";
import { mostOthers, rulesScript } from "../../../src/limits/store/rules-script.ts";
import { RulesModel } from "../../simulation/rules-model.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { RedisClient } from "../../support/redis-client.ts";
import { redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";

const cleanup = useCleanup();
const keys = rulesKeys("headgate:");
const [hashKey = "", presentKey = ""] = keys;
const startMs = 1_800_000_000_000;
/** So many of each kind at most, so that a test reaches them. */
const few = { rules: 5, others: 4, page: Number.POSITIVE_INFINITY };

/** With a clock of the test, as its last argument. */
const clockedScript = rulesScript.replace(
  "redis.call('TIME')",
  "{string.sub(ARGV[#ARGV], 1, -7), string.sub(ARGV[#ARGV], -6)}",
);
const fewScript = clockedScript.replace(/mostOthers = \d+, \d+/, `mostOthers = ${few.rules}, ${few.others}`);

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
    const server = cleanup(await startRedis());
    const client = cleanup(await RedisClient.open(server.port));
    return new Log(client, String(await client.ask("SCRIPT", "LOAD", script)));
  }

  async ask(args: readonly string[]): Promise<unknown> {
    return this.client.ask("EVALSHA", this.#sha, keys.length, ...keys, ...args, this.nowUs);
  }

  async write(...entries: readonly WrittenEntry[]): Promise<RulesAnswer> {
    this.nowUs += 1000;
    return decodeRulesAnswer(await this.ask(encodeRulesCall({ operation: "write", entries }, this.#caller)));
  }

  /** Writes one entry. */
  async writeOne(entry: WrittenEntry): Promise<WrittenResult | undefined> {
    return resultsOf(await this.write(entry))[0];
  }

  async readPage(cursor = "0", { origin, version } = { origin: "", version: -1 }): Promise<RulesAnswer> {
    this.nowUs += 1000;
    const operation = { operation: "read", origin, version, cursor, present: null } as const;
    return decodeRulesAnswer(await this.ask(encodeRulesCall(operation, this.#caller)));
  }

  /** All entries, by name. */
  async read(): Promise<readonly ReadEntry[]> {
    const entries: ReadEntry[] = [];
    for (let cursor = "0"; ; ) {
      const page = pageOf(await this.readPage(cursor));
      entries.push(...page.entries);
      cursor = page.cursor;
      if (cursor === "0") return byName(entries);
    }
  }

  get #caller() {
    return { origin: this.origin, known: this.known, wallMs: this.nowUs / 1000 };
  }
}

function byName(entries: readonly ReadEntry[]): readonly ReadEntry[] {
  return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function setting(rule: Rule, revision: number, expected: Expected = "any"): WrittenEntry {
  return { ...ruleEntry(rule), revision, expected, isAgain: revision > 0 };
}

function removing(id: string, revision = 0, expected: Expected = "any"): WrittenEntry {
  return { name: `r/${id}`, text: "", endsMs: startMs + 31 * 86_400_000, revision, expected, isAgain: revision > 0 };
}

function forgiving(value: string, endsMs: number, revision = 0): WrittenEntry {
  return { ...forgivenEntry({ kind: "client", value }, endsMs, revision), isAgain: revision > 0 };
}

type Draw = (revisions: readonly number[]) => WrittenEntry;

const ids = fc.constantFrom("a", "b", "c", "d", "e", "f", "g");
const written: fc.Arbitrary<Draw> = fc.oneof(
  fc.record({ id: ids, which: fc.nat({ max: 6 }), lastsMs: fc.constantFrom(5, 2_000, 1_000_000) }).map(
    ({ id, which, lastsMs }): Draw =>
      (revisions) => {
        const expected = which === 0 ? "absent" : which < 4 ? "any" : (revisions.at(-which) ?? 0);
        return setting(ruleOf({ id, endsMs: startMs + lastsMs }), 0, expected);
      },
  ),
  fc.record({ id: ids, which: fc.nat({ max: 3 }) }).map(
    ({ id, which }): Draw =>
      (revisions) => {
        return removing(id, 0, which < 2 ? "any" : (revisions.at(-which) ?? 0));
      },
  ),
  fc.record({ value: ids, lastsMs: fc.constantFrom(5, 2_000, 900_000, 1_000_000) }).map(
    ({ value, lastsMs }): Draw =>
      () =>
        forgiving(value, startMs + lastsMs),
  ),
  fc.record({ id: ids, which: fc.nat({ max: 4 }), kind: fc.nat({ max: 4 }) }).map(
    ({ id, which, kind }): Draw =>
      (revisions) => {
        const revision = (revisions.at(-1 - which) ?? 1) + which;
        if (kind === 0) return forgiving(id, startMs + 900_000, revision);
        const entry = kind % 2 === 1 ? setting(ruleOf({ id }), revision) : removing(id, revision);
        return { ...entry, isAgain: kind < 3 };
      },
  ),
);

describe.skipIf(skipRedis)(`the script of rules${redisNeeded}`, () => {
  test("answers as its model does to any sequence of calls", async () => {
    const log = await Log.open(fewScript);
    const calls = fc.array(
      fc.record({
        drawn: fc.array(written, { maxLength: 3 }),
        passedUs: fc.constantFrom(0, 1, 900, 3_000, 1_000_000, -2_000_000),
        known: fc.constantFrom("none", "last", "all"),
      }),
      { minLength: 1, maxLength: 40, size: "max" },
    );
    await fc.assert(
      fc.asyncProperty(calls, async (draws) => {
        await log.client.ask("FLUSHALL", "SYNC");
        log.nowUs = startMs * 1000;
        const model = new RulesModel(() => log.nowUs, few);
        const revisions: number[] = [];
        let seen = { origin: "", version: 0 };
        for (const { drawn, passedUs, known } of draws) {
          log.nowUs += passedUs;
          const highest = { none: 0, last: revisions.at(-2) ?? 0, all: (revisions.at(-1) ?? 0) + 3 };
          const caller = { origin: "o", known: highest[known], wallMs: log.nowUs / 1000 };
          const entries = drawn.map((of) => of(revisions));
          const args = encodeRulesCall(
            entries.length > 0
              ? { operation: "write", entries }
              : { operation: "read", ...seen, cursor: "0", present: null },
            caller,
          );
          const answer = decodeRulesAnswer(await log.ask(args));
          const expected = decodeRulesAnswer(model.call(args));
          if (entries.length === 0) {
            const [page, pageOfModel] = [pageOf(answer), pageOf(expected)];
            expect(byName(page.entries)).toEqual(byName(pageOfModel.entries));
            expect({ ...answer, values: [] }).toEqual({ ...expected, values: [] });
          } else expect(answer).toEqual(expected);
          revisions.push(answer.version);
          seen = answer;
        }
      }),
      { numRuns: 150 },
    );
  });

  test("a rule is set only over what was expected, and by a gateway that has seen what is there", async () => {
    const log = await Log.open();
    const put = (expected: Expected) => log.writeOne(setting(ruleOf(), 0, expected));
    const remove = (expected: Expected) => log.writeOne(removing("one", 0, expected));
    const first = startMs * 1000 + 1000;
    expect(await put("absent")).toEqual({ outcome: "written", revision: first });
    log.known = first;
    expect(await put("absent")).toEqual({ outcome: "conflict", revision: first });
    expect(await put(first - 1)).toEqual({ outcome: "conflict", revision: first });
    const second = first + 3000;
    expect(await put(first)).toEqual({ outcome: "written", revision: second });
    // A message that was given up comes late.
    expect(await put("any")).toEqual({ outcome: "old", revision: second });
    expect(await remove(first)).toEqual({ outcome: "conflict", revision: second });
    expect(await remove("any")).toEqual({ outcome: "old", revision: second });
    log.known = second;
    const third = second + 4000;
    expect(await remove("any")).toEqual({ outcome: "written", revision: third });
    expect(await put("absent")).toEqual({ outcome: "old", revision: third });
    log.known = third;
    expect(await remove("any")).toEqual({ outcome: "conflict", revision: 0 });
    expect(await put("absent")).toMatchObject({ outcome: "written" });
    expect(await log.read()).toMatchObject([{ name: "r/one", text: expect.stringContaining("a note"), isNew: true }]);
  });

  test("a version is later than any that a gateway has seen, also when the clock was set back or the store is another", async () => {
    const log = await Log.open();
    const put = async () => (await log.write(setting(ruleOf(), 0))).version;
    const first = await put();
    expect(first).toBe(log.nowUs);
    log.known = first;
    log.nowUs -= 5_000_000;
    expect(await put()).toBe(first + 1);
    log.known = first + 9_000_000;
    expect(await put()).toBe(log.known + 1);
    const told = log.known + 50;
    expect((await log.write(setting(ruleOf(), told))).version).toBe(told);
  });

  test("who knows the version is told nothing, and who knows another one, or another hash, reads all", async () => {
    const log = await Log.open();
    expect(await log.readPage()).toMatchObject({ origin: "", version: 0, values: ["0"] });
    const { origin, version } = await log.write(setting(ruleOf(), 0));
    expect(await log.readPage("0", { origin, version })).toMatchObject({ origin, version, values: ["0"] });
    for (const other of [
      { origin, version: version - 1 },
      { origin: "another", version },
    ]) {
      expect(pageOf(await log.readPage("0", other)).entries).toMatchObject([{ name: "r/one", revision: version }]);
    }
  });

  test("a forgiveness that is sent twice, or late, has the revision of the first, or of the one that followed", async () => {
    const log = await Log.open();
    const forgive = async (endsMs: number) => {
      const result = await log.writeOne(forgiving("192.0.2.1", endsMs));
      if (result?.outcome === "written") log.known = result.revision;
      return result;
    };
    const first = await forgive(startMs + 1_000_000);
    expect(await forgive(startMs + 1_000_000)).toEqual(first);
    const second = await forgive(startMs + 1_000_001);
    expect(second).not.toEqual(first);
    expect(await forgive(startMs + 1_000_000)).toEqual(second);
  });

  test("what was told again does not replace what is newer", async () => {
    const log = await Log.open();
    const { version } = await log.write(setting(ruleOf({ note: "new" }), 0));
    const there = { outcome: "written", revision: version };
    expect(await log.writeOne(setting(ruleOf({ note: "old" }), version - 1))).toEqual(there);
    expect(await log.writeOne(removing("one", version - 1))).toEqual(there);
    expect(await log.read()).toMatchObject([{ text: expect.stringContaining("new"), revision: version, isNew: true }]);
    expect(await log.writeOne(removing("one", version + 1))).toEqual({ outcome: "written", revision: version + 1 });
    expect(await log.read()).toMatchObject([{ text: "", isNew: false }]);
  });

  test("pages are bounded, and have each entry that was there from the first to the last", async () => {
    const log = await Log.open();
    for (let i = 0; i < 2_000; i += 200) {
      const some = Array.from({ length: 200 }, (_, j) => setting(ruleOf({ id: `r${i + j}` }), i + j + 1));
      await log.write(...some);
    }
    const found = new Set<string>();
    let most = 0;
    for (let cursor = "0", pages = 0; ; pages += 1) {
      const page = pageOf(await log.readPage(cursor));
      for (const entry of page.entries) found.add(entry.name);
      most = Math.max(most, page.entries.length);
      // Somebody writes meanwhile.
      await log.write(setting(ruleOf({ id: `later${pages}` }), 0));
      cursor = page.cursor;
      if (cursor === "0") break;
    }
    expect(most).toBeLessThan(400);
    expect(Array.from({ length: 2_000 }, (_, i) => `r/r${i}`).filter((name) => !found.has(name))).toEqual([]);
  });

  test("begins anew with another origin if it is gone, and every key of it is of this hash", async () => {
    const log = await Log.open();
    const before = await log.write(setting(ruleOf(), 0));
    log.known = before.version;
    await log.client.ask("DEL", hashKey);
    const after = await log.write(setting(ruleOf(), 0, "absent"));
    expect(resultsOf(after)[0]?.outcome).toBe("written");
    expect(after.origin).not.toBe(before.origin);
    expect(after.version).toBeGreaterThan(before.version);
    expect(await log.client.ask("KEYS", "*")).toEqual([hashKey]);
  });

  test("rules are read and written although something else is under the key of the list of gateways", async () => {
    const log = await Log.open();
    await log.client.ask("SET", presentKey, "something else");
    await log.write(setting(ruleOf(), 0));
    const present = { id: "gateway-aaaa", about: "{}", silenceMs: 10_000 };
    const operation = { operation: "read", origin: "", version: -1, cursor: "0", present } as const;
    const caller = { origin: "o", known: 0, wallMs: log.nowUs / 1000 };
    const answer = decodeRulesAnswer(await log.ask(encodeRulesCall(operation, caller)));
    expect([answer.present, pageOf(answer).entries.length]).toEqual([null, 1]);
    await log.client.ask("DEL", presentKey);
    expect(decodeRulesAnswer(await log.ask(encodeRulesCall(operation, caller))).present).toEqual(["gateway-aaaa {}"]);
  });

  test("rules and removals are bounded, one rule too many is refused, and one that has ended makes room", async () => {
    const log = await Log.open();
    const write = async (from: number, to: number, entry: (id: string, revision: number) => WrittenEntry) => {
      for (let at = from; at < to; at += 200)
        await log.write(...Array.from({ length: 200 }, (_, i) => entry(`r${at + i}`, at + i + 1)));
    };
    await write(0, 10_000, (id, revision) => setting(ruleOf({ id, endsMs: startMs + 3_600_000 }), revision));
    await write(10_000, 10_000 + mostOthers, (id, revision) => removing(id, revision));
    expect((await log.readPage()).floor).toBe(0);
    await write(10_000 + mostOthers, 10_400 + mostOthers, (id, revision) => removing(id, revision));
    const { floor, version } = await log.readPage();
    expect(floor).toBeGreaterThan(0);
    log.known = version;
    expect(await log.writeOne(setting(ruleOf({ id: "x" }), 0))).toEqual({ outcome: "full" });
    expect(await log.writeOne(setting(ruleOf({ id: "r1" }), 0))).toMatchObject({ outcome: "written" });
    expect(Number(await log.client.ask("HLEN", hashKey))).toBeLessThan(10_000 + mostOthers);
    log.nowUs += 3_600_000_000;
    expect(await log.writeOne(setting(ruleOf({ id: "x", endsMs: startMs + 9_000_000 }), 0))).toMatchObject({
      outcome: "written",
    });
    expect(Number(await log.client.ask("HGET", hashKey, ".rules"))).toBe(1);
  });
});
