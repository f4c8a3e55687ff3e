// The rows of the refusals that the console knows.
import { expect, test } from "vitest";
import { mostOf, Refusals, rowsOf } from "../../src/admin/console/refusals.js";

const requestOf = (second: number, client: string, reason = "throttled") => {
  const at = new Date(Date.UTC(2026, 10, 24, 12, 0, second)).toISOString();
  return { id: `${client} ${second}`, at, client, status: reason === "blocked" ? 403 : 429, reason };
};

const shown = ({ rows }: Pick<Refusals, "rows">) =>
  rows.map(({ requests: [{ client, reason, at }], first, count }) => [
    ...[client, reason, count],
    ...[first, at].map((each) => (Date.parse(each) - Date.UTC(2026, 10, 24, 12)) / 1000),
  ]);

test("a flood of one client leaves the rows of the others, each with its first and last time, the last first", () => {
  const refusals = new Refusals();
  refusals.add(requestOf(1, "a"));
  refusals.add(requestOf(2, "b"));
  refusals.add(requestOf(3, "b", "blocked"));
  for (let second = 4; second < 1004; second += 1) refusals.add(requestOf(second, "a"));
  refusals.add(requestOf(2000, "b"));
  const rows = [
    ["b", "throttled", 2, 2, 2000],
    ["a", "throttled", 1001, 1, 1003],
    ["b", "blocked", 1, 3, 3],
  ];
  expect(shown(refusals)).toEqual(rows);
  // Those that the gateway says again when the stream was cut.
  for (const second of [1, 500, 1003]) refusals.add(requestOf(second, "a"));
  refusals.add(requestOf(2, "b"));
  expect(shown(refusals)).toEqual(rows);
});

test("the row that was seen longest ago is left out of too many", () => {
  const rows = rowsOf(Array.from({ length: 300 }, (_, i) => requestOf(300 - i, `client ${i}`)));
  expect([rows.length, rows.at(0)?.requests[0].client, rows.at(-1)?.requests[0].client]).toEqual([
    ...[200, "client 0", "client 199"],
  ]);
});

test("who floods the gateway now is found at once, whoever was refused more often since the page was opened", () => {
  const refusals = new Refusals();
  const mostAt = (second: number) => mostOf(refusals.rows, Date.UTC(2026, 10, 24, 12, 0, second))?.client;
  for (let second = 0; second < 600; second += 1) refusals.add(requestOf(second, "steady"));
  for (let i = 0; i < 25; i += 1) refusals.add(requestOf(595 + i / 5, "flood"));
  expect(mostAt(600)).toBe("flood");
  expect(mostAt(640)).toBe("flood");
  for (let second = 660; second < 670; second += 1) refusals.add(requestOf(second, "steady"));
  expect(mostAt(670)).toBe("steady");
  expect(mostAt(730)).toBeUndefined();
});
