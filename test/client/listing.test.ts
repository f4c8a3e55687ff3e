// Walking a listing: every record once, in order, and nothing asked for that is not needed.
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { listTransactions, paginate } from "../../src/client/index.ts";
import { eventually } from "../support/eventually.ts";
import { collect, refuse, serve } from "./server.ts";

const TOKEN = "s3cret-token";

/** A listing by the API's own rules over records 0 to length − 1. */
function page(target: string, length: number) {
  const query = new URL(target, "http://any").searchParams;
  const [limit, offset] = [Number(query.get("limit")), Number(query.get("offset"))];
  const all = Array.from({ length }, (_, id) => ({ id, date: "2026-01-01" }));
  return JSON.stringify({ transactions: all.slice(offset, offset + limit), has_more: length - offset > limit });
}

function serveListing(length: number) {
  return serve((response, { target }) => void response.end(page(target, length)));
}

const isRecord = (item: unknown): item is { id: number } => typeof item === "object" && item !== null && "id" in item;

test("any length and any limit give every record once, in order, in as few requests as that takes", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: 60 }),
      fc.integer({ min: 1, max: 70 }),
      fc.nat({ max: 70 }),
      async (length, limit, offset) => {
        const targets: string[] = [];
        const answer: typeof fetch = async (input) => {
          targets.push(String(input));
          return new Response(page(String(input), length));
        };
        const options = {
          url: "http://any/list",
          token: TOKEN,
          member: "transactions",
          isItem: isRecord,
          fetch: answer,
        };
        const ids: number[] = [];
        for await (const { id } of paginate({ ...options, limit, offset })) ids.push(id);
        expect(ids).toEqual(Array.from({ length }, (_, id) => id).slice(offset));
        expect(targets).toHaveLength(Math.max(1, Math.ceil((length - offset) / limit)));
      },
    ),
  );
});

test("asks with the token, the same limit, and offsets that grow by it", async () => {
  const server = await serveListing(5);
  const ids = (await collect(listTransactions({ baseUrl: server.url, token: TOKEN, limit: 2 }))).map(({ id }) => id);
  expect(ids).toEqual([0, 1, 2, 3, 4]);
  expect(server.hits.map(({ target }) => target)).toEqual([
    "/v2/transactions?limit=2&offset=0",
    "/v2/transactions?limit=2&offset=2",
    "/v2/transactions?limit=2&offset=4",
  ]);
  for (const { headers } of server.hits) {
    expect(headers).toMatchObject({ authorization: `Bearer ${TOKEN}`, accept: "application/json" });
  }
});

test("asks for 1000 records a page unless told otherwise", async () => {
  const server = await serveListing(0);
  expect(await collect(listTransactions({ baseUrl: server.url, token: TOKEN }))).toEqual([]);
  expect(server.hits.map(({ target }) => target)).toEqual(["/v2/transactions?limit=1000&offset=0"]);
});

test("keeps the base's path and sends every filter, escaped, on every page", async () => {
  const server = await serveListing(2);
  const filters = { status: "a&b", category_id: 0, is_pending: false, tag_id: undefined, limit: 9, offset: 9 };
  const dates = { startDate: "2026-01-01", endDate: "2026-02-01" };
  const listing = listTransactions({ baseUrl: `${server.url}/finance/`, token: TOKEN, limit: 1, ...dates, filters });
  for await (const page of listing.pages()) expect(page.items).toHaveLength(1);
  expect(server.hits).toHaveLength(2);
  for (const [nth, { target }] of server.hits.entries()) {
    const { pathname, searchParams } = new URL(target, server.url);
    expect(pathname).toBe("/finance/v2/transactions");
    expect(Object.fromEntries(searchParams)).toEqual({
      start_date: "2026-01-01",
      end_date: "2026-02-01",
      status: "a&b",
      category_id: "0",
      is_pending: "false",
      limit: "1",
      offset: String(nth),
    });
  }
});

test("pages tell where they stand, from the offset asked for", async () => {
  const server = await serveListing(5);
  const listing = listTransactions({ baseUrl: server.url, token: TOKEN, limit: 2, offset: 1 });
  const pages = (await collect(listing.pages())).map(({ items, offset, hasMore }) => [items.length, offset, hasMore]);
  expect(pages).toEqual([
    [2, 1, true],
    [2, 3, false],
  ]);
});

test("leaving the loop early asks for no further page, and the listing can be walked again", async () => {
  const server = await serveListing(5);
  const listing = listTransactions({ baseUrl: server.url, token: TOKEN, limit: 2 });
  for await (const { id } of listing) if (id === 1) break;
  expect(server.hits).toHaveLength(1);
  expect((await collect(listing)).map(({ id }) => id)).toEqual([0, 1, 2, 3, 4]);
});

test("a page shorter than the limit does not shorten the step", async () => {
  const server = await serve((response, { target }) => {
    const first = target.endsWith("offset=0");
    response.end(JSON.stringify({ transactions: [{ date: "2026-01-01" }], has_more: first }));
  });
  await collect(listTransactions({ baseUrl: server.url, token: TOKEN, limit: 10 }));
  expect(server.hits.map(({ target }) => target.split("offset=")[1])).toEqual(["0", "10"]);
});

test("by itself it waits out a 429 in the middle and loses nothing", async ({ onTestFinished }) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const server = await serve((response, { target }, nth) => {
    if (nth === 2) refuse(response, { "retry-after": "10" });
    else response.end(page(target, 3));
  });
  const collected = collect(listTransactions({ baseUrl: server.url, token: TOKEN, limit: 1 }));
  await eventually("it is refused", () => server.hits.length === 2);
  let passedMs = 0;
  await eventually("it asks again", () => {
    vi.advanceTimersByTime(1_000);
    passedMs += 1_000;
    return server.hits.length > 2;
  });
  expect(passedMs).toBeGreaterThanOrEqual(10_000);
  expect((await collected).map(({ id }) => id)).toEqual([0, 1, 2]);
});
