import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { listOf } from "../../src/core/headers.ts";
import { localReplies } from "../../src/core/local-reply.ts";
import type { Decision, Policy, Rate } from "../../src/core/policy.ts";
import {
  type FieldKind,
  gatewayResponseFields,
  type ResetFormat,
  ResponseFields,
  retryAfterSeconds,
} from "../../src/core/response-fields.ts";
import { OneWindow } from "../limits/one-limit.ts";
import { FakeClock } from "../support/clock.ts";
import { decisionOf, slidingPolicy } from "../support/policy.ts";

const policy = slidingPolicy({ limit: 100, windowMs: 60_000 });

const auth = { realm: "finance" };

/** Wednesday, 15 November 2023, 06:13:20 GMT. */
const wallMs = 1_700_028_800_000;
const date = "Wed, 15 Nov 2023 06:13:20 GMT";

interface SetUp {
  readonly kinds?: readonly FieldKind[];
  readonly resetFormat?: ResetFormat;
  readonly atWallMs?: number;
}

function setUp({ kinds = ["standard", "legacy"], resetFormat = "epoch", atWallMs = wallMs }: SetUp = {}) {
  const clock = new FakeClock();
  clock.wallOffsetMs = atWallMs - clock.nowMs;
  const decision = (untilResetMs: number, remaining = 7): Decision =>
    decisionOf({
      outcome: remaining === 0 ? "throttled" : "admitted",
      policy,
      remaining,
      resetMs: clock.nowMs + untilResetMs,
    });
  const settings = { fields: kinds, resetFormat, auth, errors: { format: "v2" } } as const;
  return { clock, decision, fields: new ResponseFields(settings, clock, null) };
}

const fieldIn = (list: readonly string[], name: string): string | undefined => {
  const at = list.findIndex((entry, i) => i % 2 === 0 && entry === name);
  return at === -1 ? undefined : list[at + 1];
};

describe("the fields of every response", () => {
  test("are, by default, Date and two triples with the same values, in this case and order", () => {
    const { fields, decision } = setUp();
    expect(listOf(fields.always(decision(59_001), "id"))).toEqual([
      ...["Date", date],
      ...["RateLimit-Limit", "100", "RateLimit-Remaining", "7", "RateLimit-Reset", "1700028860"],
      ...["X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "1700028860"],
      ...["X-Request-Id", "id"],
    ]);
  });

  test.each<[kinds: FieldKind[], expected: string[]]>([
    [["standard"], ["RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "1700028802"]],
    [["legacy"], ["X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1700028802"]],
    [["structured"], ["RateLimit-Policy", '"per-ip";q=100;w=60', "RateLimit", '"per-ip";r=0;t=2']],
    [[], []],
  ])("of %j alone", (kinds, expected) => {
    const { fields, decision } = setUp({ kinds });
    expect(listOf(fields.always(decision(1500, 0), "id"))).toEqual(["Date", date, ...expected, "X-Request-Id", "id"]);
  });

  test("are named among those that are taken from an upstream's response, each once", () => {
    const { fields, decision } = setUp({ kinds: ["standard", "legacy", "structured"] });
    const names = listOf(fields.always(decision(1), "id")).filter((_, i) => i % 2 === 0);
    expect(names.map((name) => name.toLowerCase()).toSorted()).toEqual([...gatewayResponseFields].toSorted());
  });

  test.each([
    [0, wallMs, "1700028800"], // a whole second is not rounded further
    [0.001, wallMs, "1700028801"],
    [1, wallMs, "1700028801"],
    [999, wallMs + 1, "1700028801"],
    [1000, wallMs, "1700028801"],
    [1000, wallMs + 0.5, "1700028802"],
    [60_000, wallMs + 999, "1700028861"],
    [-1, wallMs, "1700028800"], // already past when the answer is written
  ])("round Reset up: %d ms from %d on is %s", (untilResetMs, atWallMs, reset) => {
    const { fields, decision } = setUp({ atWallMs });
    const list = listOf(fields.always(decision(untilResetMs), "id"));
    expect(fieldIn(list, "RateLimit-Reset")).toBe(reset);
    expect(fieldIn(list, "X-RateLimit-Reset")).toBe(reset);
  });

  test("count t down and never below 0", () => {
    const { fields, decision, clock } = setUp({ kinds: ["structured"] });
    const made = decision(1500);
    const t = (): string | undefined => fieldIn(listOf(fields.always(made, "id")), "RateLimit");
    expect(t()).toBe('"per-ip";r=7;t=2');
    clock.advance(501);
    expect(t()).toBe('"per-ip";r=7;t=1');
    clock.advance(5000);
    expect(t()).toBe('"per-ip";r=7;t=0');
  });

  test("a window of fractions of a second is one of whole seconds, rounded up", () => {
    const { fields, decision } = setUp({ kinds: ["structured"] });
    const made = { ...decision(1), policy: slidingPolicy({ limit: 100, windowMs: 1001 }) };
    expect(fieldIn(listOf(fields.always(made, "id")), "RateLimit-Policy")).toBe('"per-ip";q=100;w=2');
  });

  test("Reset names the same instant however late the answer is written", () => {
    const { fields, decision, clock } = setUp();
    const made = decision(42_000);
    for (let waited = 0; waited <= 42_000; waited += 700) {
      expect(fieldIn(listOf(fields.always(made, "id")), "RateLimit-Reset")).toBe("1700028842");
      clock.advance(700);
    }
  });

  test("Date moves on with the second, also backwards when the wall clock is set", () => {
    const { fields, decision, clock } = setUp();
    const dateNow = (): string | undefined => fieldIn(listOf(fields.always(decision(1), "id")), "Date");
    clock.advance(999);
    expect(dateNow()).toBe(date);
    clock.advance(1);
    expect(dateNow()).toBe("Wed, 15 Nov 2023 06:13:21 GMT");
    clock.stepWall(-2000);
    expect(dateNow()).toBe("Wed, 15 Nov 2023 06:13:19 GMT");
  });

  test("whoever waits Reset − Date, or Retry-After, is never early, and at most 2 s late", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 120_000, noNaN: true }),
        fc.double({ min: 0, max: 5000, noNaN: true }),
        (untilMs, wall) => {
          const { fields, decision } = setUp({ atWallMs: wallMs + wall });
          const list = listOf(fields.always(decision(untilMs, 0), "id"));
          const waitedMs = Number(fieldIn(list, "RateLimit-Reset")) * 1000 - Date.parse(fieldIn(list, "Date") ?? "");
          const retryAfterMs = retryAfterSeconds(null, untilMs) * 1000;
          // Half a microsecond is what adding to a Unix instant can lose.
          expect(waitedMs).toBeGreaterThanOrEqual(untilMs - 0.0005);
          expect(waitedMs).toBeLessThan(untilMs + 2000);
          expect(retryAfterMs).toBeGreaterThanOrEqual(untilMs - 0.0005);
          expect(retryAfterMs).toBeLessThanOrEqual(Math.max(1000, untilMs + 1000));
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("a step of the wall clock moves Reset and Date alike, and changes no decision and no Retry-After", () => {
    const { fields, clock } = setUp();
    const window = new OneWindow({ limit: 1, windowMs: 60_000 });
    const { resetMs } = window.take(clock.monotonicMs());
    for (const stepMs of [3_600_000, -86_400_000, 500]) {
      clock.stepWall(stepMs);
      const throttled = window.take(clock.monotonicMs());
      expect(throttled).toMatchObject({ outcome: "throttled", resetMs });
      const shown = decisionOf({ ...throttled, policy });
      const list = listOf(fields.always(shown, "id"));
      const ahead = Number(fieldIn(list, "RateLimit-Reset")) - Date.parse(fieldIn(list, "Date") ?? "") / 1000;
      expect(ahead).toBeGreaterThanOrEqual(60);
      expect(ahead).toBeLessThanOrEqual(61);
      expect(retryAfterSeconds(null, resetMs - clock.monotonicMs())).toBe(60);
    }
  });
});

describe("Retry-After", () => {
  test.each([
    [-5000, 1],
    [0, 1],
    [0.001, 1],
    [1, 1],
    [1000, 1],
    [1000.5, 2],
    [1001, 2],
    [59_999, 60],
    [60_000, 60],
  ])("%d ms before the reset is %d", (untilResetMs, seconds) => {
    expect(retryAfterSeconds(null, untilResetMs)).toBe(seconds);
  });

  test.each([
    ["none: the gateway's", [], "30"],
    ["two: the larger, whichever comes first", ["31", "60"], "60"],
    ["two: the larger, whichever comes last", ["60", "31"], "60"],
    ["two that are smaller: the gateway's", ["1", "29"], "30"],
    ["garbage and a longer one", ["soon", "31"], "31"],
    [
      "a longer one and a date that is later still",
      ["31", "Wed, 15 Nov 2023 06:13:52 GMT"],
      "Wed, 15 Nov 2023 06:13:52 GMT",
    ],
    ["a longer one", ["31"], "31"],
    ["an equal one", ["30"], "30"],
    ["a shorter one: the gateway's", ["29"], "30"],
    ["0: the gateway's", ["0"], "30"],
    ["zeros before it", ["0031"], "0031"],
    ["a later date", ["Wed, 15 Nov 2023 06:13:51 GMT"], "Wed, 15 Nov 2023 06:13:51 GMT"],
    ["the date of the gateway's own", ["Wed, 15 Nov 2023 06:13:50 GMT"], "Wed, 15 Nov 2023 06:13:50 GMT"],
    ["an earlier date: the gateway's", ["Wed, 15 Nov 2023 06:13:49 GMT"], "30"],
    ["a date long past: the gateway's", ["Sun, 06 Nov 1994 08:49:37 GMT"], "30"],
    ["a date that is none: the gateway's", ["Wed, 99 Nov 2023 06:13:51 GMT"], "30"],
    ["empty: the gateway's", [""], "30"],
    ["garbage: the gateway's", ["soon"], "30"],
    ["garbage with a year in it: the gateway's", ["soon 3000"], "30"],
    ["another form of date: the gateway's", ["3000-01-01T00:00:00Z"], "30"],
    ["a negative number: the gateway's", ["-31"], "30"],
    ["a fraction: the gateway's", ["31.5"], "30"],
    ["a unit: the gateway's", ["31s"], "30"],
    ["a list: the gateway's", ["31, 32"], "30"],
    ["a number beyond counting: the gateway's", ["9".repeat(400)], "30"],
  ])("of an upstream's 429 beside a quota that is used up, %s", (_, upstreamValues, expected) => {
    const { fields, decision } = setUp();
    const came = upstreamValues.map((value) => `retry-AFTER: ${value}\r\n`).join("");
    const lines = `A: 1\r\n${came}B: Retry-After: 7\r\n`;
    const sent = fields.withLongestWait(lines, decision(29_500, 0));
    expect(sent).toBe(`A: 1\r\nB: Retry-After: 7\r\nRetry-After: ${expected}\r\n`);
    // Where nothing of the gateway keeps the client back.
    expect(fields.withLongestWait(lines, null)).toBe(lines);
  });
});

test("the reset of a calendar quota is the second of the border, whatever the rounding of the clocks", () => {
  const daily: Policy = { ...policy, rate: { kind: "calendar", per: "day", timezone: "UTC" } };
  const borderMs = wallMs + 1_000_000;
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 900_000, noNaN: true }),
      fc.double({ min: 0, max: 5_000, noNaN: true }),
      fc.double({ min: 0, max: 90, noNaN: true }),
      (decidedMs, laterMs, lateMs) => {
        const { clock, fields, decision } = setUp({ kinds: ["standard", "structured"] });
        clock.advance(decidedMs);
        const made = { ...decision(borderMs - clock.wallMs() + lateMs), policy: daily };
        clock.advance(laterMs);
        const list = listOf(fields.always(made, "id"));
        expect(Number(fieldIn(list, "RateLimit-Reset"))).toBe(borderMs / 1000);
        const t = Number(/;t=(\d+)$/.exec(fieldIn(list, "RateLimit") ?? "")?.[1]);
        expect(Date.parse(fieldIn(list, "Date") ?? "") / 1000 + t).toBe(borderMs / 1000);
      },
    ),
  );
});

/** Each kind of limit, in each place where a response tells it. All with 7 units left, 59.5 s before the reset. */
const kindsOfLimits: readonly (readonly [string, Rate, epoch: string, delta: string, policy: string, quota: string])[] =
  [
    ["a window", { kind: "sliding", windowMs: 60_000 }, "1700028860", "60", "q=100;w=60", "r=7;t=60"],
    ["a window of 1.5 s", { kind: "sliding", windowMs: 1500 }, "1700028860", "60", "q=100;w=2", "r=7;t=60"],
    ["a window of 1 s", { kind: "sliding", windowMs: 1000 }, "1700028860", "60", "q=100;w=1", "r=7;t=60"],
    ["a window of 500 ms", { kind: "sliding", windowMs: 500 }, "1700028860", "60", "q=100", "r=7;t=60"],
    ["a minute", { kind: "calendar", per: "minute", timezone: "UTC" }, "1700028860", "60", "q=100;w=60", "r=7;t=60"],
    ["an hour", { kind: "calendar", per: "hour", timezone: "UTC" }, "1700028860", "60", "q=100;w=3600", "r=7;t=60"],
    ["a day", { kind: "calendar", per: "day", timezone: "UTC" }, "1700028860", "60", "q=100;w=86400", "r=7;t=60"],
    ["a month", { kind: "calendar", per: "month", timezone: "UTC" }, "1700028860", "60", "q=100", "r=7;t=60"],
    ["slots", { kind: "concurrency" }, "1700028860", "60", 'q=100;qu="concurrent-requests"', "r=7"],
  ];

test.each(kindsOfLimits)("%s is told as what it is, in each place", (_, rate, epoch, delta, policyItem, quotaItem) => {
  for (const [resetFormat, reset] of [["epoch", epoch] as const, ["delta", delta] as const]) {
    const { fields, decision } = setUp({ kinds: ["standard", "legacy", "structured"], resetFormat });
    const list = listOf(fields.always({ ...decision(59_500), policy: { ...policy, rate } }, "id"));
    expect(fieldIn(list, "RateLimit-Reset")).toBe(reset);
    expect(fieldIn(list, "X-RateLimit-Reset")).toBe(reset);
    expect(fieldIn(list, "RateLimit-Policy")).toBe(`"per-ip";${policyItem}`);
    expect(fieldIn(list, "RateLimit")).toBe(`"per-ip";${quotaItem}`);
  }
});

test("resetFormat delta counts the seconds down, rounded up, so that a client that waits as long is never early", () => {
  const { fields, decision, clock } = setUp({ resetFormat: "delta" });
  const made = decision(2000);
  const deltas = [0, 0.5, 999.5, 1, 998, 1, 5000].map((stepMs) => {
    clock.advance(stepMs);
    return fieldIn(listOf(fields.always(made, "id")), "RateLimit-Reset");
  });
  expect(deltas).toEqual(["2", "2", "1", "1", "1", "0", "0"]);
  const daily: Policy = { ...policy, rate: { kind: "calendar", per: "day", timezone: "UTC" } };
  const refused = { ...setUp({ atWallMs: wallMs + 400 }).decision(59_650, 0), policy: daily };
  const list = listOf(setUp({ resetFormat: "delta", atWallMs: wallMs + 400 }).fields.always(refused, "id"));
  // The clocks were read a little apart: the border is at the second, and a wait of 60 s ends behind it.
  expect(fieldIn(list, "RateLimit-Reset")).toBe("60");
});

describe("an answer of the gateway's own", () => {
  test("429, to the byte", () => {
    const { fields, decision } = setUp();
    expect(listOf(fields.localReply(localReplies.throttled, decision(59_001, 0), "id", []))).toEqual([
      ...["Date", date],
      ...["RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "1700028860"],
      ...["X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1700028860"],
      ...["X-Request-Id", "id"],
      ...["Retry-After", "60"],
      ...["Cache-Control", "no-store", "Content-Type", "application/json; charset=utf-8", "Content-Length", "98"],
    ]);
    expect(localReplies.throttled.body).toBe(
      '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}',
    );
  });

  test("429 again and again, each with its own wait", () => {
    const { fields, decision } = setUp();
    const waitAfter = (resetMs: number): string | undefined =>
      fieldIn(listOf(fields.localReply(localReplies.throttled, decision(resetMs, 0), "id", [])), "Retry-After");
    expect([59_001, 59_001, 59_001, 7000, 7000, 59_001].map(waitAfter)).toEqual(["60", "60", "60", "7", "7", "60"]);
  });

  test.each([
    ["without a token", localReplies.noToken, 'Bearer realm="finance"'],
    ["with one that is not good", localReplies.invalidToken, 'Bearer realm="finance", error="invalid_token"'],
  ])("401 %s", (_, problem, challenge) => {
    const { fields, decision } = setUp();
    const headers = listOf(fields.localReply(problem, decision(59_001), "id", []));
    expect(problem.body).toBe('{"message":"Unauthorized","errors":[{"errMsg":"Access token does not exist."}]}');
    expect(fieldIn(headers, "WWW-Authenticate")).toBe(challenge);
    expect(fieldIn(headers, "RateLimit-Remaining")).toBe("7");
  });

  test.each(Object.entries(localReplies))(
    "%s has each field once, its length, and Retry-After on 429 alone",
    (_, problem) => {
      const { fields, decision } = setUp({ kinds: ["standard", "legacy", "structured"] });
      const headers = listOf(fields.localReply(problem, decision(1000), "id", []));
      const names = headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
      expect(new Set(names).size).toBe(names.length);
      for (const name of gatewayResponseFields) expect(names).toContain(name);
      // A 204 has no body, and so neither of the two.
      const hasBody = problem.status !== 204;
      expect(fieldIn(headers, "Content-Length")).toBe(hasBody ? `${Buffer.byteLength(problem.body)}` : undefined);
      expect(fieldIn(headers, "Content-Type")).toBe(hasBody ? "application/json; charset=utf-8" : undefined);
      expect(fieldIn(headers, "Cache-Control")).toBe("no-store");
      expect(names.includes("retry-after")).toBe(problem.status === 429);
      const tellsOfTokens = problem.status === 401 || problem.reason === "insufficient_scope";
      expect(names.includes("www-authenticate")).toBe(tellsOfTokens);
    },
  );
});
