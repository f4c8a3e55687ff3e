// What keys and answers make of what `headgate top` shows.
import { describe, expect, test } from "vitest";
import { rowsOf, scrolled, wantedRows, withAnswers, withFailure } from "../../../../src/commands/admin/top/state.ts";
import { answersOf, clientState, page, row, stateOf, typed } from "./answers-of.ts";

const [up, down, pageUp, pageDown, end] = ["\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~", "\x1b[F"];
const many = Array.from({ length: 35 }, (_, i) => row(`10.0.0.${i}`, 90 - i));
const filled = withAnswers(stateOf(), answersOf({ rows: many }));
const selectedName = (state: typeof filled) => rowsOf(state)[state.selected]?.name;

describe("keys of the list", () => {
  test.each([
    ["r", { sort: "refused" }, ["refresh"]],
    ["n", { sort: "recent" }, ["refresh"]],
    ["rnu", { sort: "used" }, ["refresh", "refresh", "refresh"]],
    ["p", { isPaused: true }, []],
    [" p", { isPaused: false }, ["refresh"]],
    ["?", { view: "help" }, []],
    ["?x", { view: "clients" }, []],
    ["q", {}, ["quit"]],
    ["\x03", {}, ["quit"]],
    ["\x1a", {}, ["suspend"]],
    ["\x0c", {}, ["redraw"]],
    ["xyz", {}, []],
  ])("%j", (keys, changes, effects) => {
    expect(typed(filled, keys)).toEqual([{ ...filled, ...changes }, effects]);
  });

  test("arrows and pages select within the list, and the selected row is in sight", () => {
    const at = (keys: string) => {
      const [{ selected, offset }] = typed(filled, keys);
      return { selected, offset };
    };
    expect(at(up)).toEqual({ selected: 0, offset: 0 });
    expect(at(down)).toEqual({ selected: 1, offset: 0 });
    expect(at(pageDown)).toEqual({ selected: 10, offset: 1 });
    expect(at(`${pageDown}${up}`)).toEqual({ selected: 9, offset: 1 });
    expect(at(end)).toEqual({ selected: 34, offset: 25 });
    expect(at(`${end}${down}`)).toEqual({ selected: 34, offset: 25 });
    expect(at(`${end}${pageUp}`)).toEqual({ selected: 24, offset: 24 });
    expect(at(`${end}\x1b[H`)).toEqual({ selected: 0, offset: 0 });
  });

  test("near the end of what is known, more is asked for", () => {
    const cut = withAnswers(stateOf(), answersOf({ rows: many.slice(0, 20), isComplete: false }));
    expect(typed(cut, down)[1]).toEqual([]);
    const [next, effects] = typed(cut, pageDown);
    expect(effects).toEqual(["refresh"]);
    expect(wantedRows(next, page)).toBe(30);
  });

  test("no more than the API lists is asked for", () => {
    expect(wantedRows(stateOf({ selected: 999 }), page)).toBe(1000);
  });
});

describe("the filter", () => {
  test("is asked for when it is entered, and keys are its text until then", () => {
    const [typing, before] = typed(filled, "/10.qx\x7f");
    expect([typing.typed, typing.search, before]).toEqual(["10.q", null, []]);
    const [entered, after] = typed(typing, "\x7f\r");
    expect([entered.typed, entered.search, after]).toEqual([null, "10.", ["refresh"]]);
  });

  test("is left as it was by Escape, and taken away by another one", () => {
    const [filtered] = typed(filled, "/10.\r");
    const [left, nothing] = typed(filtered, "/x\x1b");
    expect([left.search, nothing]).toEqual(["10.", []]);
    const [without, effects] = typed(left, "\x1b");
    expect([without.search, effects]).toEqual([null, ["refresh"]]);
    expect(typed(without, "\x1b")[1]).toEqual([]);
  });

  test("an empty one is none, and a long one ends where the API ends", () => {
    expect(typed(filled, "/\r")[0].search).toBeNull();
    expect(typed(filled, `/${"a".repeat(500)}\r`)[0].search).toHaveLength(128);
  });
});

describe("following", () => {
  const [followed] = typed(filled, `${down}${down}f`);

  test("the row stays selected where it moves", () => {
    const moved = answersOf({ rows: many.map((each) => (each.name === "10.0.0.2" ? { ...each, used: 1 } : each)) });
    const next = withAnswers(followed, moved);
    expect([selectedName(next), next.selected]).toEqual(["10.0.0.2", 34]);
    expect(withAnswers({ ...followed, followed: null }, moved).selected).toBe(2);
  });

  test("a row that is not listed is looked for in a longer list", () => {
    const gone = withAnswers(followed, answersOf({ rows: many.slice(3) }));
    expect([gone.selected, wantedRows(gone, page)]).toEqual([2, 250]);
    const [back] = [withAnswers(gone, answersOf({ rows: many }))];
    expect([selectedName(back), wantedRows(back, page)]).toEqual(["10.0.0.2", 22]);
  });

  test("a policy may count a name under several keys: one of them is followed", () => {
    const rows = ["GET", "PUT"].map((method, i) => row("10.0.0.9", 5 - i, { method }));
    const [state] = typed(withAnswers(stateOf(), answersOf({ rows })), `${down}f`);
    const swapped = [row("10.0.0.9", 1, { method: "GET" }), row("10.0.0.9", 9, { method: "PUT" })];
    const next = withAnswers(state, answersOf({ rows: swapped }));
    expect(rowsOf(next)[next.selected]?.method).toBe("PUT");
  });

  test("ends with f, and with another selection", () => {
    expect(typed(followed, "f")[0].followed).toBeNull();
    expect(typed(followed, down)[0].followed).toBeNull();
    expect(typed(followed, "r")[0].followed).not.toBeNull();
  });
});

describe("one client", () => {
  const [opened, effects] = typed(filled, `${down}\r`);

  test("is asked for by its key", () => {
    expect([opened.view, opened.client, effects]).toEqual([
      "client",
      { key: "client:10.0.0.1", state: null, missing: null, offset: 0 },
      ["refresh"],
    ]);
  });

  test("its answer is shown, and one about a client that was left is not", () => {
    const found = { key: "client:10.0.0.1", state: clientState("client:10.0.0.1"), missing: null };
    expect(withAnswers(opened, answersOf({ client: found })).client?.state).toEqual(found.state);
    expect(withAnswers(opened, answersOf({ client: { ...found, key: "client:10.0.0.7" } })).client?.state).toBeNull();
    expect(withAnswers(typed(opened, "q")[0], answersOf({ client: found })).client).toBeNull();
  });

  test.each(["q", "\x1b", "\r"])("%j goes back to the list, which is asked for", (key) => {
    const [back, asked] = typed(opened, key);
    expect([back.view, back.client, back.selected, asked]).toEqual(["clients", null, 1, ["refresh"]]);
  });

  test("one without a name of its own is not asked for", () => {
    const state = withAnswers(stateOf(), answersOf({ rows: [row("0123abcd", 1, { key: null })] }));
    const [same, asked] = typed(state, "\r");
    expect([same.view, same.notice, asked]).toEqual(["clients", "0123abcd cannot be asked for by its name", []]);
    expect(typed(same, "x")[0].notice).toBeNull();
  });
});

describe("answers", () => {
  test("rows of the same use are in one order, however the gateway lists them", () => {
    const rows = ["b", "c", "a"].map((name) => row(name, 5));
    const names = (given: typeof rows) => {
      return rowsOf(withAnswers(stateOf(), answersOf({ rows: given }))).map(({ name }) => name);
    };
    expect(names(rows)).toEqual(["a", "b", "c"]);
    expect(names(rows.toReversed())).toEqual(["a", "b", "c"]);
  });

  test("refused and recent keep the order of the gateway", () => {
    const refused = [9, 30, 20].map((count, i) => row(`${i}`, i, { refused: { count, error: 0 } }));
    const recent = [1, 3, 2].map((second, i) => row(`${i}`, i, { last: `2026-11-24T11:59:0${second}.000Z` }));
    const order = (sort: "refused" | "recent", rows: typeof refused) => {
      return rowsOf(withAnswers(stateOf({ sort }), answersOf({ rows }))).map(({ name }) => name);
    };
    expect(order("refused", refused)).toEqual(["1", "2", "0"]);
    expect(order("recent", recent)).toEqual(["1", "2", "0"]);
  });

  test("a failure says since when, keeps what was known, and an answer ends it", () => {
    const failed = withFailure(withFailure(filled, "first", "12:00:00 UTC"), "second", "12:00:01 UTC");
    expect(failed.failure).toEqual({ message: "second", since: "12:00:00 UTC" });
    expect(rowsOf(failed)).toHaveLength(35);
    expect(withAnswers(failed, answersOf({})).failure).toBeNull();
  });

  test("a list that became shorter has its last row selected", () => {
    expect(withAnswers(typed(filled, end)[0], answersOf({ rows: many.slice(0, 3) })).selected).toBe(2);
    expect(withAnswers(filled, answersOf({})).selected).toBe(0);
  });
});

test.each([
  [0, 0, 10, 0],
  [0, 9, 10, 0],
  [0, 10, 10, 1],
  [5, 3, 10, 3],
  [5, 8, 10, 5],
  [5, 8, 0, 8],
])("from offset %i, row %i of pages of %i is shown from %i", (offset, selected, rows, expected) => {
  expect(scrolled(offset, selected, rows)).toBe(expected);
});
