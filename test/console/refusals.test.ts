// The rows of the refusals that the console knows.
import { expect, test } from "vitest";
import { Refusals, rowsOf } from "../../src/admin/console/refusals.js";

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
