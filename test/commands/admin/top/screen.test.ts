// The screen of `headgate top` as lines, for sizes and states of every kind, without a terminal.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lineText, painted } from "../../../../src/commands/admin/top/lines.ts";
import { pageRows, printout, screen, shortDuration } from "../../../../src/commands/admin/top/screen.ts";
import { type TopState, withAnswers, withFailure } from "../../../../src/commands/admin/top/state.ts";
import { ratesOf } from "../../../../src/commands/admin/top/top.ts";
import { runs } from "../../../support/runs.ts";
import { answersOf, clientState, row, stateOf, type Told, typed } from "./answers-of.ts";

const small = { columns: 80, rows: 24 };
const large = { columns: 200, rows: 60 };
const texts = (state: TopState, size = small): string[] => screen(state, size).map((line) => lineText(line).trimEnd());
const shownOf = (told: Told, changes: Partial<TopState> = {}): TopState =>
  withAnswers(stateOf(changes), answersOf(told));

const rows = [
  row("203.0.113.7", 100, { refused: { count: 120, error: 5 } }),
  row("2001:db8:1:2::/64", 40, { policy: "per-network-and-day", limit: 1_000_000, remaining: 999_960 }),
  row("0a1b2c3d", 3, { key: "key:0a1b2c3d", seen: "198.51.100.9", method: "GET", route: "/v2/", resetSeconds: 3661 }),
];

describe("the list", () => {
  test("80 × 24: header, table, keys", () => {
    const lines = texts(shownOf({ rows, rates: { admitted: 1234.4, refused: 5.26, p99Seconds: 0.01234 } }));
    expect(lines).toHaveLength(24);
    expect(lines.slice(0, 8)).toEqual([
      "headgate 1.2.3  ready for 13 s  /run/admin.sock",
      "requests/s  admitted 1234  refused 5.3  p99 12.3 ms",
      "upstream up, 1 of 1 addresses  store up, 2 gateways  workers 1 of 1",
      "3 keys  by used",
      "KEY                         POLICY                    USED   LEFT RESET REFUSED",
      "client:203.0.113.7          per-client             100/100      0   30s 115-120",
      "client:2001:db8:1:2::/64    per-network-and-day 40/1000000 999960   30s",
      "key:0a1b2c3d (198.51.100.9) per-client GET /v2/      3/100     97  1h1m",
    ]);
    expect(lines.at(-1)).toBe("u r n sort  / filter  f follow  Enter client  p pause  ? help  q quit");
  });

  test("200 × 60: all columns, with a bar", () => {
    const lines = texts(shownOf({ rows }), large);
    expect(lines).toHaveLength(60);
    expect(lines[5]).toMatch(/^client:203\.0\.113\.7 .* 100\/100 \[\|{38}\] +0 +30s 115-120$/);
    expect(lines[6]).toMatch(/ 40\/1000000 \[\| {37}\] 999960 /);
  });

  test("a narrow terminal keeps the key and what is used", () => {
    const lines = texts(shownOf({ rows }), { columns: 48, rows: 12 });
    expect(lines[5]).toMatch(/^client:203\.0\.113\.7 +100\/100 +30s 115-120$/);
    expect(lines[7]).toMatch(/^key:0a1b2c3d \(\S*~ /);
  });

  test("the selected row is reversed over the whole width", () => {
    const [state] = typed(shownOf({ rows }), "\x1b[B");
    const reversed = screen(state, small).filter((line) => line.some(({ style }) => style === "reverse"));
    expect(reversed).toHaveLength(1);
    expect(lineText(reversed[0] ?? [])).toMatch(/^client:2001:db8/);
    expect(lineText(reversed[0] ?? [])).toHaveLength(80);
  });

  test("a long list scrolls with the selection", () => {
    const many = Array.from({ length: 100 }, (_, i) => row(`10.0.0.${i}`, 99 - i));
    const state = shownOf({ rows: many }, { selected: 50 });
    const keys = texts(state).filter((line) => line.startsWith("client:"));
    expect(keys).toHaveLength(pageRows(state, small));
    expect(keys.at(-1)).toMatch(/^client:10\.0\.0\.50 /);
  });

  test("says by what it is sorted, what is left out, what is followed, and that it is paused", () => {
    const state = shownOf({ rows, isComplete: false }, { search: "203", policy: "per-client", sort: "refused" });
    const [paused] = typed(state, "fp");
    expect(texts(paused)[3]).toBe('3+ keys  by refused  policy per-client  filter "203"  following  PAUSED');
    const lost = withAnswers(paused, answersOf({ rows: rows.slice(1) }));
    expect(texts(lost)[3]).toContain("followed key is not listed");
    expect(texts(shownOf({}))[5]).toBe("No key is counted.");
    expect(texts(typed(state, "/4")[0]).at(-1)).toBe("filter: 2034_  Enter applies, Escape leaves it");
  });
});

describe("the header", () => {
  const headerOf = (told: Told): string => texts(shownOf(told)).slice(0, 6).join("\n");

  test("says what is wrong", () => {
    const upstream = { state: "down" as const, reason: "refused", addresses: [] };
    const workers = { configured: 4, serving: 3, restarts: 1 };
    expect(headerOf({ status: { upstream, workers, store: null, state: "draining" } })).toContain(
      "draining for 13 s  /run/admin.sock\nrequests/s  not known yet\nupstream down (refused), 0 of 0 addresses  workers 3 of 4",
    );
  });

  test("shows a reload on trial, and that gateways share the keys", () => {
    const instants = { since: "2026-11-24T12:00:00.000Z", ends: "2026-11-24T12:05:00.000Z" };
    const tally = { refusedShare: null, judged: 0, refused: 0, changed: [], changes: [] };
    const trial = { ...instants, ...tally, cause: "file" as const, by: null, unconfirmed: "takeBack" as const };
    const header = headerOf({ status: { trial }, isShared: true });
    expect(header).toContain("a reload is on trial until 12:05:00 UTC; then it is taken back, unless confirmed");
    expect(header).toContain("other gateways count the same keys");
    expect(headerOf({ status: { trial: { ...trial, unconfirmed: "keep" } } })).toContain("then it is kept");
    expect(headerOf({ status: { trial: null } })).not.toContain("trial");
  });

  test("a gateway that is away leaves what was known on the screen", () => {
    const state = withFailure(shownOf({ rows }), "nobody listens on the socket", "12:00:07 UTC");
    const lines = texts(state);
    expect(lines[3]).toBe("since 12:00:07 UTC, tried again and again: nobody listens on the socket");
    expect(lines[6]).toMatch(/^client:203\.0\.113\.7 /);
  });
});

describe("one client", () => {
  const usage = { limit: 10, used: 10, remaining: 0, reset: "2026-11-24T12:00:30.000Z", resetSeconds: 30 };
  const at = "2026-11-24T11:59:30.000Z";
  const found = clientState("client:203.0.113.7", {
    policies: [
      {
        ...{
          policy: "per-client",
          state: "exhausted",
          isShadow: true,
          countedAs: "network",
          method: null,
          route: null,
        },
        ...{
          ...usage,
          instants: [{ at, units: 10 }],
          period: null,
          held: 2,
          exemptBy: null,
          gap: "PUT has other keys",
        },
      },
    ],
    rules: [
      {
        ...{ id: "r1", client: "203.0.113.0/24", action: "block", for: "1h", note: "scraper", set: at, setBy: "ops" },
        ...{
          ends: "2026-11-24T13:00:00.000Z",
          warnings: [],
          untouchedPolicies: [],
          survivesRestart: true,
          shared: null,
        },
      },
    ],
  });
  const [opened] = typed(shownOf({ rows }), "\r");

  test("shows what each policy counts, and the rules about it", () => {
    const client = { key: "client:203.0.113.7", state: found, missing: null };
    expect(texts(withAnswers(opened, answersOf({ rows, client }))).slice(4, 13)).toEqual([
      "client:203.0.113.7",
      "per-client 10/10 exhausted (shadow), 0 left, more in 30 s, at 12:00:30 UTC",
      "  counted as its network, because there was no room for a counter of its own",
      "  2 held by requests under way",
      "  PUT has other keys",
      "  what counts: from 11:59:30 UTC to 11:59:30 UTC",
      "",
      "rule r1  block until 13:00:00 UTC, set by ops: scraper",
      "",
    ]);
  });

  test("says that it is asked for, and that nothing is known", () => {
    expect(texts(opened).slice(4, 6)).toEqual(["client:203.0.113.7", "The gateway is asked."]);
    const missing = { key: "client:203.0.113.7", state: null, missing: "nothing is counted" };
    expect(texts(withAnswers(opened, answersOf({ client: missing })))[5]).toBe("nothing is counted");
    const empty = { key: "client:203.0.113.7", state: clientState("client:203.0.113.7"), missing: null };
    const lines = texts(withAnswers(opened, answersOf({ client: empty })));
    expect(lines.slice(5, 8)).toEqual(["No policy counts it.", "", "No rule is about it."]);
  });

  test("scrolls, and not beyond its end", () => {
    const rules = Array.from({ length: 40 }, (_, i) => ({ ...(found.rules[0] as never as object), id: `r${i}` }));
    const state = clientState("client:203.0.113.7", { rules: rules as typeof found.rules });
    const shown = withAnswers(opened, answersOf({ rows, client: { key: state.key, state, missing: null } }));
    expect(texts(typed(shown, "\x1b[B\x1b[B")[0])[5]).toMatch(/^rule r0 /);
    const [end] = typed(shown, "\x1b[F");
    expect(texts(end).at(-2)).toMatch(/^rule r39 /);
    expect(texts(end)[4]).toBe("client:203.0.113.7");
  });
});

test("the help names every key", () => {
  const lines = texts(typed(shownOf({ rows }), "?")[0]).join("\n");
  for (const key of [
    "u r n",
    "/",
    "Escape",
    "PageUp",
    "f ",
    "Enter",
    "space",
    "q Ctrl-C",
    "Ctrl-Z",
    "Ctrl-L",
    "kill -9",
  ]) {
    expect(lines).toContain(key);
  }
});

test("has exactly the size of the terminal, and ASCII alone, whatever names there are", () => {
  const name = fc.oneof(fc.string({ unit: "binary", maxLength: 60 }), fc.constant("\x1b[31m\u{202e}日本語\x07"));
  const states = fc.record({
    rows: fc.array(fc.record({ name, key: fc.option(name), policy: name, seen: fc.option(name) }), { maxLength: 60 }),
    keys: fc.string({ unit: fc.constantFrom("\x1b[B", "\x1b[6~", "\r", "f", "?", "/", "é", "p"), maxLength: 8 }),
    failure: fc.option(name),
  });
  fc.assert(
    fc.property(states, fc.nat({ max: 220 }), fc.nat({ max: 70 }), ({ rows: given, keys, failure }, columns, count) => {
      const listed = given.map((each, i) => row("", i, each));
      const [state] = typed(shownOf({ rows: listed }), keys);
      const failed = failure === null ? state : withFailure(state, failure, "12:00:00 UTC");
      const lines = screen(failed, { columns, rows: count }).map(lineText);
      expect(lines).toHaveLength(count);
      for (const line of lines) {
        expect(line.length).toBeLessThanOrEqual(columns);
        expect(line).toMatch(/^[ -~]*$/);
      }
    }),
    runs(400),
  );
});

test("a printout cuts nothing", () => {
  const long = row("a".repeat(300), 5);
  const lines = printout(shownOf({ rows: [long] })).map(lineText);
  expect(lines[5]).toContain(`client:${"a".repeat(300)} per-client 5/100`);
  expect(lines).toHaveLength(6);
});

test("colors are left out where they are not wanted, and nothing else", () => {
  const line = [
    { text: "a", style: "bad" },
    { text: "b", style: "reverse" },
    { text: "c", style: null },
  ] as const;
  expect(painted(line, true)).toBe("\x1b[31ma\x1b[0m\x1b[7mb\x1b[0mc");
  expect(painted(line, false)).toBe("a\x1b[7mb\x1b[0mc");
});

test.each([
  [0, "0s"],
  [59.2, "1m"],
  [3599, "59m59s"],
  [3661, "1h1m"],
  [90_000, "1d1h"],
])("%d s are short as %s", (seconds, expected) => {
  expect(shortDuration(seconds)).toBe(expected);
});

test("the rates are those of the last step, and none where it was not counted", () => {
  const step = {
    ...{ seconds: 5, admitted: 50, refused: { throttled: 4, blocked: 1 } },
    ...{ latencySeconds: { p50: 0.1, p90: 0.2, p99: 0.3 }, store: null },
    upstream: { answered: 50, meanSeconds: 0.1, failed: {} },
    memory: { residentBytes: 3, heapBytes: 2, externalBytes: 1 },
  };
  const history = { stepSeconds: 5, end: null };
  expect(ratesOf({ ...history, steps: [null, step] })).toEqual({ admitted: 10, refused: 1, p99Seconds: 0.3 });
  expect(ratesOf({ ...history, steps: [step, null] })).toBeNull();
  expect(ratesOf({ ...history, steps: [] })).toBeNull();
});
