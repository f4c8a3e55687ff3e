import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runs } from "../support/runs.ts";
import { allTransactions, categories, type Filter, matching, queryOf, tags } from "./oracle.ts";
import { asPage, type Page, useBackend } from "./support.ts";

const { json } = useBackend();

const list = async (filter: Filter, page: { limit?: number; offset?: number } = {}): Promise<Page> => {
  const { status, body } = await json(`/v2/transactions?${queryOf(filter, page)}`);
  expect(status).toBe(200);
  return asPage(body);
};
const ids = (records: readonly { readonly id: number }[]): number[] => records.map((record) => record.id);

const dates = fc.constantFrom(...new Set(allTransactions.map((entry) => entry.date)), "2023-06-01", "2026-06-01");
const instants = fc.constantFrom(
  ...allTransactions.slice(0, 40).map((entry) => entry.createdAt),
  ...allTransactions.slice(-40).map((entry) => entry.updatedAt),
  "2024-11-05",
  "2025-03-01T00:00:00+02:00",
  "2025-03-01T12:00:00.5Z",
);
const filters: fc.Arbitrary<Filter> = fc
  .record(
    {
      from: dates,
      to: dates,
      manual_account_id: fc.constantFrom(0, 219_001, 219_002, 120_002, 7),
      plaid_account_id: fc.constantFrom(0, 120_001, 120_002, 120_003, 7),
      category_id: fc.constantFrom(0, 7, ...categories.map((category) => category.id)),
      tag_id: fc.constantFrom(7, ...tags.map((tag) => tag.id)),
      status: fc.constantFrom("reviewed", "unreviewed", "delete_pending"),
      is_pending: fc.boolean(),
      created_since: instants,
      updated_since: instants,
    },
    { requiredKeys: [] },
  )
  .map(({ from, to, ...others }) => {
    const [start, end] = from !== undefined && to !== undefined && from > to ? [to, from] : [from, to];
    return { ...others, ...(start && { start_date: start }), ...(end && { end_date: end }) };
  });
const filterNames = [
  ...["start_date", "end_date", "manual_account_id", "plaid_account_id", "category_id", "tag_id"],
  ...["status", "is_pending", "created_since", "updated_since"],
];
// Few filters at a time, or next to nothing would ever match.
const someFilters = fc
  .tuple(filters, fc.subarray(filterNames, { maxLength: 3 }))
  .map(
    ([filter, kept]) => Object.fromEntries(Object.entries(filter).filter(([name]) => kept.includes(name))) as Filter,
  );

describe("a page equals the same slice of a naive filter", () => {
  test("for any filters, limits and offsets", async () => {
    const property = fc.asyncProperty(
      someFilters,
      fc.integer({ min: 1, max: 2000 }),
      fc.nat({ max: 3200 }),
      async (filter, limit, offset) => {
        const expected = matching(filter);
        const page = await list(filter, { limit, offset });
        expect(ids(page.transactions)).toEqual(ids(expected.slice(offset, offset + limit)));
        expect(page.has_more).toBe(expected.length - offset > limit);
      },
    );
    await fc.assert(property, runs(150));
  });

  test("also where a page ends just at, before or behind the last match", async () => {
    const property = fc.asyncProperty(
      someFilters,
      fc.nat(),
      fc.integer({ min: -1, max: 1 }),
      async (filter, place, beyond) => {
        const expected = matching(filter);
        const offset = Math.max(expected.length - 1 - (place % 30), 0);
        const limit = Math.max(expected.length - offset + beyond, 1);
        const page = await list(filter, { limit, offset });
        expect(ids(page.transactions)).toEqual(ids(expected.slice(offset, offset + limit)));
        expect(page.has_more).toBe(expected.length - offset > limit);
      },
    );
    await fc.assert(property, runs(150));
  });

  test("and walking on by the same limit meets every match exactly once", async () => {
    const property = fc.asyncProperty(someFilters, fc.integer({ min: 1, max: 2000 }), async (filter, anyLimit) => {
      const expected = matching(filter);
      const limit = Math.max(anyLimit, Math.ceil(expected.length / 12));
      const met: number[] = [];
      for (let offset = 0, more = true; more; offset += limit) {
        const page = await list(filter, { limit, offset });
        met.push(...ids(page.transactions));
        more = page.has_more;
      }
      expect(met).toEqual(ids(expected));
    });
    await fc.assert(property, runs(25));
  });
});

describe("the seven pagination rules", () => {
  const groceries = { category_id: 83_201 };
  const matches = matching(groceries);

  test("1: filters come first, then limit and offset count among what is left", async () => {
    const page = await list(groceries, { limit: 5, offset: 10 });
    expect(page.transactions.map((record) => record.category_id)).toEqual(Array(5).fill(83_201));
    expect(ids(page.transactions)).toEqual(ids(matches.slice(10, 15)));
  });

  test("2: has_more is true when the matches beyond offset exceed limit, by one as well", async () => {
    expect((await list(groceries, { limit: 10, offset: matches.length - 11 })).has_more).toBe(true);
    expect((await list(groceries, { limit: matches.length - 1 })).has_more).toBe(true);
  });

  test("3: has_more is false on the last page, a full one as well", async () => {
    const full = await list(groceries, { limit: 10, offset: matches.length - 10 });
    expect(full.transactions).toHaveLength(10);
    expect(full.has_more).toBe(false);
  });

  test("4: the next page starts at offset plus limit, without a gap or a repetition", async () => {
    const first = await list(groceries, { limit: 7, offset: 14 });
    const next = await list(groceries, { limit: 7, offset: 21 });
    expect(ids([...first.transactions, ...next.transactions])).toEqual(ids(matches.slice(14, 28)));
  });

  test("5: a client that goes on until has_more is false has everything", async () => {
    const met: number[] = [];
    const sizes: number[] = [];
    for (let offset = 0, more = true; more; offset += 1000) {
      const page = await list({}, { offset });
      met.push(...ids(page.transactions));
      sizes.push(page.transactions.length);
      more = page.has_more;
    }
    expect(met).toEqual(ids(matching({})));
    expect(sizes).toEqual([1000, 1000, allTransactions.length - 2000]);
  });

  test("6: no match is an empty array and no more", async () => {
    const nothing = { transactions: [], has_more: false };
    expect(await list({ start_date: "2030-01-01" })).toEqual(nothing);
    expect(await list({ tag_id: 1 })).toEqual(nothing);
    expect(await list({}, { offset: allTransactions.length })).toEqual(nothing);
    expect(await list({}, { offset: Number.MAX_SAFE_INTEGER, limit: 2000 })).toEqual(nothing);
  });

  test("7: fewer matches than limit come alone and without more", async () => {
    const filter = { start_date: "2024-06-10", end_date: "2024-06-10" };
    const expected = matching(filter);
    expect(expected.length).toBeGreaterThan(0);
    const page = await list(filter);
    expect(ids(page.transactions)).toEqual(ids(expected));
    expect(page.has_more).toBe(false);
  });
});

describe("the order and the defaults", () => {
  test("newest date first and, within a day, the higher id first", async () => {
    const { transactions } = await list({}, { limit: 2000 });
    const keys = transactions.map((record) => `${record.date} ${String(record.id).padStart(12, "0")}`);
    expect(keys).toEqual([...keys].sort().reverse());
  });

  test("the limit is 1000 and the offset 0 when they are absent", async () => {
    expect(await list({})).toEqual(await list({}, { limit: 1000, offset: 0 }));
  });

  test("start_date and end_date are inclusive and each may stand alone", async () => {
    const days = async (filter: Filter): Promise<Set<unknown>> =>
      new Set((await list(filter, { limit: 2000 })).transactions.map((record) => record.date));
    expect([...(await days({ end_date: "2024-01-02" }))]).toEqual(["2024-01-02", "2024-01-01"]);
    expect([...(await days({ start_date: "2025-12-31" }))]).toEqual(["2025-12-31"]);
    expect([...(await days({ start_date: "2024-02-29", end_date: "2024-02-29" }))]).toEqual(["2024-02-29"]);
  });

  test("a parameter that nobody knows changes nothing", async () => {
    const { body } = await json("/v2/transactions?limit=3&include_metadata=true&color=red&color=blue");
    expect(body).toEqual(await list({}, { limit: 3 }));
  });
});
