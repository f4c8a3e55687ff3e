import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { startFinanceBackend } from "../../src/finance-backend/server.ts";
import { authorization, useBackend } from "./support.ts";

const { json, send } = useBackend();

const invalid = (...errors: readonly [string, string][]) => ({
  status: 400,
  body: {
    message: "Request Validation Failure",
    errors: errors.map(([instancePath, errMsg]) => ({ errMsg, instancePath })),
  },
});
const unauthorized = {
  status: 401,
  body: { message: "Unauthorized", errors: [{ errMsg: "Access token does not exist." }] },
};
const notFound = (errMsg: string) => ({ status: 404, body: { message: "Not Found", errors: [{ errMsg }] } });

describe.each(["/v2/transactions", "/v1/transactions"])("%s refuses", (path) => {
  const limit = invalid(["/query/limit", "limit must be an integer from 1 to 2000."]);
  test.each(["0", "-1", "2001", "1.5", "1e3", "ten", "", "+5", "%205", "05", "0x10", "99999999999999999999", "%00"])(
    "limit=%s",
    async (value) => expect(await json(`${path}?limit=${value}`)).toEqual(limit),
  );

  const offset = invalid(["/query/offset", "offset must be an integer from 0 to 9007199254740991."]);
  test.each(["-1", "1.0", "", "all", "9007199254740992", "1%20OR%201=1"])("offset=%s", async (value) =>
    expect(await json(`${path}?offset=${value}`)).toEqual(offset),
  );

  const notADate = ["2025-02-29", "2024-02-30", "2025-13-01", "2025-00-10", "2025-01-00", "2025-1-1", "0000-01-01"];
  const notATextualDate = ["20250101", "2025-01-01T00:00:00Z", "yesterday", "", "2025-01-01'--"];
  test.each([...notADate, ...notATextualDate])("the date %s", async (value) => {
    const rule = "must be a calendar date in YYYY-MM-DD form.";
    expect(await json(`${path}?start_date=${value}`)).toEqual(invalid(["/query/start_date", `start_date ${rule}`]));
    expect(await json(`${path}?end_date=${value}`)).toEqual(invalid(["/query/end_date", `end_date ${rule}`]));
  });

  test("a start after the end", async () =>
    expect(await json(`${path}?start_date=2025-02-02&end_date=2025-02-01`)).toEqual(
      invalid(["/query/start_date", "start_date must not be after end_date."]),
    ));

  test("a parameter given twice, even with the same value", async () =>
    expect(await json(`${path}?limit=5&limit=5`)).toEqual(
      invalid(["/query/limit", "limit must be given at most once."]),
    ));
});

describe("/v2/transactions refuses", () => {
  test.each(["manual_account_id", "plaid_account_id", "category_id"])("a malformed %s", async (name) => {
    const expected = invalid([`/query/${name}`, `${name} must be an integer from 0 to 2147483647.`]);
    for (const value of ["-1", "abc", "", "2147483648", "1,2"]) {
      expect(await json(`/v2/transactions?${name}=${value}`)).toEqual(expected);
    }
  });

  test("a malformed tag_id, and 0 is one", async () => {
    const expected = invalid(["/query/tag_id", "tag_id must be an integer from 1 to 2147483647."]);
    expect(await json("/v2/transactions?tag_id=0")).toEqual(expected);
    expect(await json("/v2/transactions?tag_id=vacation")).toEqual(expected);
  });

  test("an unknown status", async () =>
    expect(await json("/v2/transactions?status=Reviewed")).toEqual(
      invalid(["/query/status", "status must be one of reviewed, unreviewed, delete_pending."]),
    ));

  test("is_pending other than true and false", async () =>
    expect(await json("/v2/transactions?is_pending=1")).toEqual(
      invalid(["/query/is_pending", "is_pending must be one of true, false."]),
    ));

  test.each(["created_since", "updated_since"])("a malformed %s", async (name) => {
    const rule = `${name} must be a date in YYYY-MM-DD form or an ISO 8601 date and time.`;
    for (const value of ["2025-02-30", "2025-01-01T24:00:00Z", "2025-01-01T10", "1735689600", "2025-01-01T10:00Zulu"]) {
      expect(await json(`/v2/transactions?${name}=${value}`)).toEqual(invalid([`/query/${name}`, rule]));
    }
  });

  test("several bad parameters with one error each, in one answer", async () =>
    expect(await json("/v2/transactions?status=x&limit=0&tag_id=1&tag_id=2&end_date=never")).toEqual(
      invalid(
        ["/query/limit", "limit must be an integer from 1 to 2000."],
        ["/query/end_date", "end_date must be a calendar date in YYYY-MM-DD form."],
        ["/query/tag_id", "tag_id must be given at most once."],
        ["/query/status", "status must be one of reviewed, unreviewed, delete_pending."],
      ),
    ));
});

describe("other refusals", () => {
  test.each(["83201x", "0", "-1", "%31", "2147483648", "1.0"])("a malformed category id %s is 400", async (id) =>
    expect(await json(`/v2/categories/${id}`)).toEqual(
      invalid(["/path/id", "id must be an integer from 1 to 2147483647."]),
    ),
  );

  test("a malformed crypto id is 400", async () =>
    expect(await json("/v2/crypto/synced/eth/refresh", { method: "POST" })).toEqual(
      invalid(["/path/id", "id must be an integer from 1 to 2147483647."]),
    ));

  test("an unknown category or crypto account is 404 and named", async () => {
    expect(await json("/v2/categories/543210")).toEqual(notFound("There is no category with the id: 543210."));
    expect(await json("/v2/crypto/synced/99999999/refresh", { method: "POST" })).toEqual(
      notFound("There is no synced crypto account with the id: 99999999."),
    );
  });

  test.each(["/", "/v2", "/v3/me", "/v2/me/", "/V2/me", "/v2/transactions/1", "/v2//me", "/v1/categories", "/v2/%6de"])(
    "the unknown path %s is 404",
    async (path) => expect(await json(path)).toEqual(notFound("There is nothing at this path.")),
  );

  test("a bad format or is_group of the categories is 400", async () => {
    expect(await json("/v2/categories?format=tree&is_group=maybe")).toEqual(
      invalid(
        ["/query/format", "format must be one of nested, flattened."],
        ["/query/is_group", "is_group must be one of true, false."],
      ),
    );
  });

  test.each([
    ["POST", "/v2/transactions", "GET, HEAD, OPTIONS"],
    ["DELETE", "/v2/categories/83201", "GET, HEAD, OPTIONS"],
    ["PUT", "/v1/me", "GET, HEAD, OPTIONS"],
    ["GET", "/v2/crypto/synced/33004/refresh", "POST, OPTIONS"],
  ])("%s %s is 405 and says what is allowed", async (method, path, allow) => {
    const response = await send(path, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe(allow);
    const errors = [{ errMsg: `The methods allowed here are ${allow}.` }];
    expect(await response.json()).toEqual({ message: "Method Not Allowed", errors });
  });

  test.each([
    ["no Authorization", {}],
    ["Basic", { authorization: "Basic dXNlcjpwYXNz" }],
    ["a scheme without a token", { authorization: "Bearer" }],
    ["two words", { authorization: "Bearer one two" }],
    ["a longer scheme", { authorization: "Bearers token" }],
  ])("%s is 401, on every path and with a challenge", async (_name, headers) => {
    for (const path of ["/v2/me", "/v1/transactions", "/nowhere"]) {
      expect(await json(path, { headers })).toEqual(unauthorized);
    }
    expect((await send("/v2/me", { headers })).headers.get("www-authenticate")).toBe('Bearer realm="finance"');
  });

  test("the scheme may be written in any case", async () => {
    expect((await send("/v2/me", { headers: { authorization: "bearer a.b-c_d~e+f/g==" } })).status).toBe(200);
  });
});

test("a failure inside is 500 without a trace of the inside, is reported, and the next request is served", async () => {
  const file = join(tmpdir(), `finance-backend-${randomUUID()}.sqlite`);
  const failures: unknown[] = [];
  const onFailure = (error: unknown): void => void failures.push(error);
  const backend = await startFinanceBackend({ host: "127.0.0.1", port: 0, database: file, onFailure });
  try {
    const other = new DatabaseSync(file);
    other.exec("DROP TABLE transaction_tags");
    other.close();
    const response = await fetch(`${backend.url}/v2/transactions`, { headers: authorization });
    expect(response.status).toBe(500);
    const errors = [{ errMsg: "The server failed to handle the request." }];
    expect(await response.json()).toEqual({ message: "Internal Server Error", errors });
    expect(String(failures[0])).toContain("no such table: transaction_tags");
    expect((await fetch(`${backend.url}/v2/me`, { headers: authorization })).status).toBe(200);
  } finally {
    await backend.close();
    rmSync(file);
  }
});
