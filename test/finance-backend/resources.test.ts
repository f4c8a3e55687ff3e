import { type Category, LunchMoneyClient, LunchMoneyError } from "@lunch-money/lunch-money-js-v2";
import { describe, expect, test } from "vitest";
import { allTransactions, matching } from "./oracle.ts";
import { asPage, authorization, useBackend } from "./support.ts";

const { backend, json, send } = useBackend();
const user = {
  id: 18_328,
  name: "Robin Example",
  email: "robin@example.org",
  account_id: 18_221,
  budget_name: "Household",
  primary_currency: "usd",
  api_key_label: "Reference backend",
};
const sdk = (): LunchMoneyClient => new LunchMoneyClient({ apiKey: "any-token", baseUrl: `${backend().url}/v2` });

describe("/v2/categories", () => {
  test("nested, which is the default: groups carry their children, which do not stand at the top", async () => {
    const nested = await sdk().categories.getAll();
    expect(await sdk().categories.getAll({ format: "nested" })).toEqual(nested);
    expect(nested.map((category) => category.name)).toEqual([
      ...["Income", "Home", "Food", "Transport", "Health", "Leisure", "Shopping", "Transfers", "Insurance", "Travel"],
      ...["Bank Fees", "Gifts & Donations", "Pottery Class"],
    ]);
    const food = nested.find((category) => category.name === "Food");
    expect(food?.children?.map((child) => [child.name, child.group_id, child.is_group, child.order])).toEqual([
      ["Groceries", 83_200, false, 0],
      ["Restaurants", 83_200, false, 1],
      ["Coffee & Snacks", 83_200, false, 2],
    ]);
    for (const category of nested) expect("children" in category).toBe(category.is_group);
  });

  test("flattened: the children stand at the top as well, each after its group", async () => {
    const nested = await sdk().categories.getAll();
    const flattened = await sdk().categories.getAll({ format: "flattened" });
    const expected = nested.flatMap((category) => [category, ...(category.children ?? [])]);
    expect(flattened).toEqual(expected);
    expect(flattened).toHaveLength(35);
  });

  test("is_group chooses the groups or what is in no group, whatever the format", async () => {
    const nested = await sdk().categories.getAll();
    for (const is_group of [true, false]) {
      const chosen = await sdk().categories.getAll({ is_group, format: "flattened" });
      expect(chosen).toEqual(nested.filter((category) => category.is_group === is_group));
      expect(chosen.length).toBeGreaterThan(5);
    }
  });

  test("one category has the shape the official SDK declares, field by field", async () => {
    const pottery: Category = {
      id: 83_905,
      name: "Pottery Class",
      description: null,
      is_income: false,
      exclude_from_budget: false,
      exclude_from_totals: false,
      updated_at: "2024-09-15T17:05:00.000Z",
      created_at: "2023-12-28T09:30:00.000Z",
      group_id: null,
      is_group: false,
      archived: true,
      archived_at: "2024-09-15T17:05:00.000Z",
      order: null,
      collapsed: false,
    };
    expect(await sdk().categories.get(83_905)).toEqual(pottery);
    const flattened = await sdk().categories.getAll({ format: "flattened" });
    for (const id of [83_000, 83_201]) {
      expect(await sdk().categories.get(id)).toEqual(flattened.find((category) => category.id === id));
    }
  });
});

describe("an entity tag", () => {
  test.each(["/v2/categories", "/v2/categories?format=flattened", "/v2/categories/83200"])("%s", async (path) => {
    const first = await send(path);
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[\w-]{27}"$/);
    expect(first.headers.get("cache-control")).toBe("private");
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const response = await send(path, { headers: { ...authorization, "if-none-match": known } });
      expect([known, response.status, response.headers.get("etag")]).toEqual([known, 304, etag]);
      expect(await response.text()).toBe("");
    }
    const other = await send(path, { headers: { ...authorization, "if-none-match": '"other"' } });
    expect([other.status, await other.text()]).toEqual([200, await first.text()]);
  });

  test("differs where the body differs", async () => {
    const paths = ["/v2/categories", "/v2/categories?format=flattened", "/v2/categories/83200"];
    const etags = await Promise.all(paths.map(async (path) => (await send(path)).headers.get("etag")));
    expect(new Set(etags).size).toBe(3);
  });

  test("a token is asked for first: nobody learns from a 304 without one", async () => {
    expect((await send("/v2/categories", { headers: { "if-none-match": "*" } })).status).toBe(401);
  });
});

test("a crypto refresh answers with the account, as often as one likes, with a body or without", async () => {
  const path = "/v2/crypto/synced/33004/refresh";
  const first = await json(path, { method: "POST" });
  expect(first).toMatchObject({
    status: 200,
    body: { id: 33_004, provider: "coinbase", status: "active", created_by_name: user.name },
  });
  const balances = [
    { symbol: "eth", balance: "12.004500000000000000", to_base: 28_998.44 },
    { symbol: "btc", balance: "0.100020003000400050", to_base: 6231.28 },
  ];
  expect(first.body).toMatchObject({ balances });
  const { data } = await sdk().rawClient.POST("/crypto/synced/{id}/refresh", { params: { path: { id: 33_004 } } });
  expect(data).toEqual(first.body);
  expect(await json(path, { method: "POST", body: "not even JSON" })).toEqual(first);
});

describe("the official SDK", () => {
  test("reads the user", async () => expect(await sdk().user.getMe()).toEqual(user));

  test("pages through everything", async () => {
    const met: number[] = [];
    for (let offset = 0, more = true; more; offset += 700) {
      const page = await sdk().transactions.getAll({ limit: 700, offset });
      met.push(...page.transactions.map((transaction) => transaction.id));
      more = page.hasMore;
    }
    expect(met).toEqual(matching({}).map((entry) => entry.id));
  });

  test("sees an error as one", async () => {
    const error = await sdk()
      .categories.get(1)
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LunchMoneyError);
    const errors = [{ errMsg: "There is no category with the id: 1." }];
    expect(error).toMatchObject({ status: 404, message: "Not Found", errors });
  });
});

describe("/v1", () => {
  test("lists the same transactions in its own words, with a date range and pages", async () => {
    const range = { start_date: "2025-06-10", end_date: "2025-06-20" };
    const expected = matching(range);
    const { status, body } = await json("/v1/transactions?start_date=2025-06-10&end_date=2025-06-20&limit=10&offset=5");
    expect(status).toBe(200);
    expect(asPage(body).has_more).toBe(expected.length > 15);
    expect(asPage(body).transactions.map((record) => record.id)).toEqual(
      expected.slice(5, 15).map((entry) => entry.id),
    );
    expect((await json("/v1/transactions")).body).toMatchObject({ has_more: true });
  });

  test("a record carries names beside ids, an asset and the old statuses", async () => {
    const entry = allTransactions.find(
      (candidate) => candidate.tagIds.length > 0 && candidate.manualAccountId !== null,
    );
    const { body } = await json(`/v1/transactions?start_date=${entry?.date}&end_date=${entry?.date}`);
    const record: unknown = asPage(body).transactions.find((candidate) => candidate.id === entry?.id);
    expect(record).toMatchObject({ asset_id: entry?.manualAccountId, plaid_account_id: null, amount: entry?.amount });
    expect(record).toMatchObject({ tags: entry?.tagIds.map((id) => ({ id, name: expect.stringMatching(/\w/) })) });
    const all = asPage((await json("/v1/transactions?limit=2000")).body).transactions as readonly unknown[];
    const statuses = new Set(all.map((listed) => (listed as { status: string }).status));
    expect([...statuses].sort()).toEqual(["cleared", "delete_pending", "uncleared"]);
    expect(all).toContainEqual(expect.objectContaining({ category_id: 83_201, category_name: "Groceries" }));
    expect(all).toContainEqual(expect.objectContaining({ category_id: null, category_name: null }));
  });

  test("knows no filter of the second version", async () => {
    expect((await json("/v1/transactions?status=nonsense&limit=1")).status).toBe(200);
  });

  test("names the user", async () => {
    expect((await json("/v1/me")).body).toEqual({
      user_id: user.id,
      user_name: user.name,
      user_email: user.email,
      account_id: user.account_id,
      budget_name: user.budget_name,
      primary_currency: user.primary_currency,
      api_key_label: user.api_key_label,
    });
  });
});
