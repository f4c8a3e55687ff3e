import { createHash } from "node:crypto";
import type { Transaction } from "@lunch-money/lunch-money-js-v2";
import { describe, expect, test } from "vitest";
import { allTransactions, categories, matching, tags } from "./oracle.ts";
import { asPage, authorization, startInMemory, useBackend } from "./support.ts";

const { json } = useBackend();

const everything = [
  ...[0, 2000].map((offset) => `/v2/transactions?limit=2000&offset=${offset}`),
  ...["/v2/categories", "/v2/me", "/v1/transactions?limit=2000", "/v1/me"],
];

/** Of all bodies, as they come over the wire from a backend of its own. */
async function digest(): Promise<string> {
  const backend = await startInMemory();
  const hash = createHash("sha256");
  for (const path of everything) {
    const response = await fetch(backend.url + path, { headers: authorization });
    hash.update(new Uint8Array(await response.arrayBuffer()));
  }
  await backend.close();
  return hash.digest("hex");
}

test("every start serves the same bytes, on every machine", async () => {
  // A change of the data is a change of this line, and of schemaVersion: files made before must not be reused.
  expect(await digest()).toBe("d1d6f4dec375146a2718c0e678c9d348c0ad0eb8ef8fd05c79722132d893d09e");
});

describe("the sample", () => {
  test("has at least 2,500 transactions on two years, from the first day to the last", () => {
    expect(allTransactions.length).toBeGreaterThanOrEqual(2500);
    expect([allTransactions[0]?.date, allTransactions.at(-1)?.date]).toEqual(["2024-01-01", "2025-12-31"]);
  });

  test("has some of everything a filter can ask for", () => {
    const groups = categories.filter((category) => category.isGroup);
    expect(categories.length - groups.length).toBeGreaterThanOrEqual(25);
    for (const { id } of categories) expect([id, matching({ category_id: id }).length > 0]).toEqual([id, true]);
    for (const { id } of tags) expect([id, matching({ tag_id: id }).length > 0]).toEqual([id, true]);
    expect(matching({ category_id: 0 }).length).toBeGreaterThan(20);
    expect(matching({ is_pending: true }).length).toBeGreaterThan(3);
    expect(matching({ manual_account_id: 0, plaid_account_id: 0 }).length).toBeGreaterThan(20);
    for (const status of ["reviewed", "unreviewed", "delete_pending"]) {
      expect(matching({ status }).length).toBeGreaterThan(5);
    }
  });

  test("keeps the rules of the records: pending is synced and unreviewed, updated is not before created", () => {
    for (const entry of allTransactions) {
      if (entry.isPending) expect([entry.plaidAccountId === null, entry.status]).toEqual([false, "unreviewed"]);
      expect(entry.manualAccountId === null || entry.plaidAccountId === null).toBe(true);
      expect(entry.updatedAt >= entry.createdAt && entry.createdAt.slice(0, 10) >= entry.date).toBe(true);
      expect(entry.amount).toMatch(/^-?\d+\.\d{4}$/);
    }
    const external = allTransactions.flatMap((entry) => entry.externalId ?? []);
    expect(new Set(external).size).toBe(external.length);
  });

  test("is a household that earns, pays rent each month and spends less than it earns", () => {
    const dollars = (id: number): number[] => matching({ category_id: id }).map((entry) => Number(entry.amount));
    const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0);
    expect(matching({}).filter((entry) => entry.payee.startsWith("Lindenhof"))).toHaveLength(24);
    const spent = matching({}).filter((entry) => entry.categoryId !== 83_900 && Number(entry.amount) > 0);
    expect(sum(spent.map((entry) => entry.toBase))).toBeLessThan(-sum(dollars(83_000)));
  });
});

test("a served record has the shape the official SDK declares, field by field", async () => {
  const { body } = await json("/v2/transactions?start_date=2025-06-15&end_date=2025-06-15");
  const served = asPage(body).transactions;
  const expected = matching({ start_date: "2025-06-15", end_date: "2025-06-15" }).map(
    (entry): Transaction => ({
      id: entry.id,
      date: entry.date,
      amount: entry.amount,
      currency: entry.currency,
      to_base: entry.toBase,
      recurring_id: null,
      payee: entry.payee,
      original_name: entry.originalName,
      category_id: entry.categoryId,
      notes: entry.notes,
      status: entry.status,
      is_pending: entry.isPending,
      created_at: entry.createdAt,
      updated_at: entry.updatedAt,
      is_split_parent: false,
      split_parent_id: null,
      is_group_parent: false,
      group_parent_id: null,
      manual_account_id: entry.manualAccountId,
      plaid_account_id: entry.plaidAccountId,
      tag_ids: [...entry.tagIds],
      source: entry.source,
      external_id: entry.externalId,
    }),
  );
  expect(expected.map((entry) => entry.currency)).toContain("eur");
  expect(served).toEqual(expected);
});
