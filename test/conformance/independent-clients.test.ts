// Clients that others wrote, unmodified and with their defaults, read every transaction of the reference backend
// through the gateway. The quota is smaller than the number of pages, so each of them meets a 429 on its way.
import { LunchMoneyClient, LunchMoneyError } from "@lunch-money/lunch-money-js-v2";
import axios from "axios";
import axiosRetry from "axios-retry";
import got from "got";
import ky from "ky";
import { parseRateLimit } from "ratelimit-header-parser";
import { afterAll, beforeAll, expect, type TestContext, test, vi } from "vitest";
import { createRetryingFetch, listTransactions } from "../../src/client/index.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { ResetFormat } from "../../src/core/response-fields.ts";
import { type FinanceBackend, startFinanceBackend } from "../../src/finance-backend/server.ts";
import { clockOf, FakeClock } from "../support/clock.ts";
import { eventually, turns } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";

const LIMIT = 4;
const PAGE = 450;
const TOKEN = "any-token";
const HEADERS = { authorization: `Bearer ${TOKEN}` };
const TOO_MANY = { message: "Too Many Requests", errors: [{ errMsg: "Too many requests, please try again later." }] };

let backend: FinanceBackend;
let allIds: number[];

beforeAll(async () => {
  backend = await startFinanceBackend({ host: "127.0.0.1", port: 0, database: null });
  // As the backend itself lists them, with no gateway between.
  allIds = await walk(async (query) => {
    const response = await fetch(`${backend.url}/v2/transactions?${query}`, { headers: HEADERS });
    return (await response.json()) as Listing;
  });
  expect(allIds.length).toBeGreaterThanOrEqual(2_500);
  expect(new Set(allIds).size).toBe(allIds.length);
});
afterAll(() => backend.close());

/** A gateway of the test's own, so that its quota is untouched. */
async function gate(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  windowMs = 60_000,
  resetFormat: ResetFormat = "epoch",
  clock: Clock = systemClock,
): Promise<TestGateway> {
  const policies = [slidingPolicy({ limit: LIMIT, windowMs })];
  const gateway = await startTestGateway({ upstreamUrl: backend.url, overrides: { policies, resetFormat }, clock });
  onTestFinished(() => gateway.close());
  return gateway;
}

interface Listing {
  readonly transactions: readonly { readonly id: number }[];
  readonly has_more: boolean;
}

/** The paging loop that each user of a plain HTTP client writes. */
async function walk(load: (query: string, offset: number) => Promise<Listing>): Promise<number[]> {
  const ids: number[] = [];
  for (let offset = 0; ; offset += PAGE) {
    const page = await load(`limit=${PAGE}&offset=${offset}`, offset);
    ids.push(...page.transactions.map(({ id }) => id));
    if (!page.has_more) return ids;
  }
}

/** Notes each 429 on its way to whoever asked. */
function noting(refusals: unknown[]): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (response.status === 429) refusals.push(response.headers.get("retry-after"));
    return response;
  };
}

/** Reads all ids from the gateway and notes the Retry-After of each refusal. */
type Reader = (url: string, refusals: unknown[]) => Promise<number[]>;

const readers: Record<string, Reader> = {
  ky: (url, refusals) =>
    walk((query) => ky.get(`${url}/v2/transactions?${query}`, { headers: HEADERS, fetch: noting(refusals) }).json()),

  got: (url, refusals) => {
    const client = got.extend({
      headers: HEADERS,
      hooks: { beforeRetry: [({ response }) => void refusals.push(response?.headers["retry-after"])] },
    });
    return walk((query) => client.get(`${url}/v2/transactions?${query}`).json());
  },

  "axios with axios-retry": (url, refusals) => {
    const client = axios.create({ baseURL: url, headers: HEADERS });
    axiosRetry(client, { onRetry: (_nth, { response }) => void refusals.push(response?.headers["retry-after"]) });
    return walk(async (query) => (await client.get<Listing>(`/v2/transactions?${query}`)).data);
  },

  "the official SDK over our fetch": (url, refusals) => {
    const fetch = createRetryingFetch({ fetch: noting(refusals) });
    const client = new LunchMoneyClient({ apiKey: TOKEN, baseUrl: `${url}/v2`, fetch });
    return walk(async (_query, offset) => {
      const { transactions, hasMore } = await client.transactions.getAll({ limit: PAGE, offset });
      return { transactions, has_more: hasMore };
    });
  },

  "our own client": async (url, refusals) => {
    const fetch = createRetryingFetch({ fetch: noting(refusals) });
    const ids: number[] = [];
    for await (const { id } of listTransactions({ baseUrl: url, token: TOKEN, limit: PAGE, fetch }))
      ids.push(Number(id));
    return ids;
  },
};

/** Time as its test moves it, for the gateway and for the timers of its client. Otherwise it goes on by itself in steps of 20 ms. */
function holdTime({ onTestFinished }: Pick<TestContext, "onTestFinished">): Clock {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"], shouldAdvanceTime: true });
  onTestFinished(() => void vi.useRealTimers());
  return clockOf(Date.now, Date.now);
}

// A client never meets two refusals in a row: whoever waits as long as Retry-After says is admitted.
test.for(Object.entries(readers))(
  "%s reads every transaction once, in order, and no 429 follows another",
  async ([, read], context) => {
    const clock = holdTime(context);
    const refusals: unknown[] = [];
    const { url, logLines } = await gate(context, 4_000, "epoch", clock);
    const statuses = (): unknown[] => logLines.filter(({ msg }) => msg === "request").map(({ status }) => status);
    const reading = read(url, refusals);
    await eventually("the client is refused", () => statuses().includes(429));
    const asked = statuses().length;
    await eventually("the client asks again", async () => {
      vi.advanceTimersByTime(100);
      await turns(10);
      return statuses().length > asked;
    });
    expect(await reading).toEqual(allIds);
    expect(refusals.length).toBeGreaterThan(0);
    expect(refusals.filter((seconds) => !/^[1-4]$/.test(String(seconds)))).toEqual([]);
    const pages = Math.ceil(allIds.length / PAGE);
    await eventually("all is logged", () => statuses().length === pages + refusals.length);
    expect(statuses().filter((status) => status === 200)).toHaveLength(pages);
    expect(statuses().join(" ")).not.toContain("429 429");
  },
);

test("the official SDK by itself reports a 429 with its status, message and errors", async (context) => {
  const client = new LunchMoneyClient({ apiKey: TOKEN, baseUrl: `${(await gate(context)).url}/v2` });
  for (let nth = 0; nth < LIMIT; nth++) await client.user.getMe();
  const error: unknown = await client.transactions.getAll().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LunchMoneyError);
  expect(error).toMatchObject({ status: 429, ...TOO_MANY, data: TOO_MANY });
});

test("the official SDK by itself reports the backend's own refusals as they are", async (context) => {
  const client = new LunchMoneyClient({ apiKey: TOKEN, baseUrl: `${(await gate(context)).url}/v2` });
  const errors = [{ errMsg: "There is no category with the id: 99." }];
  await expect(client.categories.get(99)).rejects.toMatchObject({ status: 404, errors });
});

test("ratelimit-header-parser reads our fields by itself: it takes a number this large for a Unix time", async (context) => {
  const windowMs = 60_000;
  const { url } = await gate(context, windowMs);
  for (let nth = 1; nth <= LIMIT + 1; nth++) {
    const response = await fetch(`${url}/v2/me`, { headers: HEADERS });
    const sentMs = Date.parse(response.headers.get("date") ?? "");
    const read = parseRateLimit(response);
    expect(response.status).toBe(nth <= LIMIT ? 200 : 429);
    expect(read).toMatchObject({ limit: LIMIT, used: Math.min(nth, LIMIT), remaining: Math.max(0, LIMIT - nth) });
    expect(read).toEqual(parseRateLimit(response, { reset: "unix" }));
    // Date is cut to the second and Reset is rounded up, so the window may seem up to two seconds longer.
    const leftMs = Number(read?.reset) - sentMs;
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(windowMs + 2_000);
  }
});

test("ratelimit-header-parser reads resetFormat delta by itself as well: it takes a small number for seconds", async (context) => {
  const { url } = await gate(context, 60_000, "delta", new FakeClock());
  const response = await fetch(`${url}/v2/me`, { headers: HEADERS });
  const leftMs = Number(parseRateLimit(response)?.reset) - Date.now();
  expect(response.headers.get("ratelimit-reset")).toBe("60");
  expect(leftMs).toBeGreaterThan(50_000);
  expect(leftMs).toBeLessThanOrEqual(61_000);
});

test("ratelimit-header-parser, told that the reset is a number of seconds, lands decades away: the documented hazard", async (context) => {
  const response = await fetch(`${(await gate(context)).url}/v2/me`, { headers: HEADERS });
  const reset = parseRateLimit(response, { reset: "seconds" })?.reset;
  expect(reset?.getUTCFullYear()).toBeGreaterThan(2070);
});
