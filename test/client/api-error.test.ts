// What a walk reports when the answer is no page, and that it reports the token never.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { ApiError, createRetryingFetch, listTransactions, paginate } from "../../src/client/index.ts";
import { collect, notedSleep, refuse, serve } from "./server.ts";

const TOKEN = "s3cret-token";

/** The error that ends a walk over a server which answers always this. */
async function failure(status: number, body: string): Promise<ApiError> {
  const server = await serve((response) => void response.writeHead(status).end(body));
  const patient = createRetryingFetch(notedSleep());
  const options = { baseUrl: server.url, token: TOKEN, limit: 2, fetch: patient };
  const error: unknown = await collect(listTransactions(options)).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ApiError);
  if (!(error instanceof ApiError)) throw error;
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(TOKEN);
  return error;
}

test("a refusal carries the status, the message and every errMsg", async () => {
  const body = { message: "Request Validation Failure", errors: [{ errMsg: "one", more: 1 }, { errMsg: "two" }] };
  expect(await failure(400, JSON.stringify(body))).toMatchObject({
    name: "ApiError",
    status: 400,
    message: "Request Validation Failure",
    errors: [{ errMsg: "one" }, { errMsg: "two" }],
  });
});

test("a 429 that outlasted every attempt is reported as the gateway put it", async () => {
  const server = await serve((response) => refuse(response, { "retry-after": "1" }));
  const patient = createRetryingFetch({ ...notedSleep(), maxAttempts: 2 });
  const walk = collect(listTransactions({ baseUrl: server.url, token: TOKEN, fetch: patient }));
  await expect(walk).rejects.toMatchObject({
    status: 429,
    message: "Too Many Requests",
    errors: [{ errMsg: "Too many requests, please try again later." }],
  });
  expect(server.hits).toHaveLength(2);
});

test.each([
  [502, "<html>Bad Gateway</html>"],
  [500, ""],
  [500, "null"],
  [404, '{"errors":"none"}'],
  [404, '{"message":5,"errors":[{"errMsg":6},null,"x"]}'],
])("a %i whose body is %j leaves the status alone", async (status, body) => {
  expect(await failure(status, body)).toMatchObject({ status, message: `The server answered ${status}`, errors: [] });
});

test("a server that quotes the token does not get it into the error", async () => {
  const body = { message: `No ${TOKEN}`, errors: [{ errMsg: `${TOKEN}${TOKEN}` }] };
  expect(await failure(401, JSON.stringify(body))).toMatchObject({
    message: "No [token]",
    errors: [{ errMsg: "[token][token]" }],
  });
  await failure(200, `Bearer ${TOKEN}`);
});

test.each([
  ["is not JSON", '{"transactions":['],
  ["is not JSON", ""],
  ["is not a JSON object", "[]"],
  ["is not a JSON object", "null"],
  ['has no array "transactions"', '{"has_more":false}'],
  ['has no array "transactions"', '{"transactions":{},"has_more":false}'],
  ['has no boolean "has_more"', '{"transactions":[]}'],
  ['has no boolean "has_more"', '{"transactions":[],"has_more":"false"}'],
  ["holds at transactions[1] what is no such record", '{"transactions":[{"date":"x"},{"id":1}],"has_more":false}'],
  ["holds at transactions[0] what is no such record", '{"transactions":[null],"has_more":false}'],
  ["holds 3 records where at most 2", '{"transactions":[{"date":"x"},{"date":"x"},{"date":"x"}],"has_more":true}'],
  ["is empty and says that there are more", '{"transactions":[],"has_more":true}'],
])("a page that %s: %s", async (complaint, body) => {
  const error = await failure(200, body);
  expect(error.status).toBe(200);
  expect(error.message).toContain(`The page at offset 0 ${complaint}`);
});

test("a connection that fails is what fetch makes of it, without the token", async () => {
  const server = await serve((response) => void response.destroy());
  const walk = collect(listTransactions({ baseUrl: server.url, token: TOKEN }));
  const error: unknown = await walk.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(TypeError);
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(TOKEN);
});

const isItem = (_item: unknown): _item is unknown => true;
const GOOD = { url: "http://127.0.0.1", baseUrl: "http://127.0.0.1", token: "t", member: "transactions", isItem };

test.each<[string, unknown, typeof RangeError | typeof TypeError]>([
  ["limit", 0, RangeError],
  ["limit", 1.5, RangeError],
  ["offset", -1, RangeError],
  ["offset", Number.NaN, RangeError],
  ["token", "", TypeError],
  ["token", "with space", TypeError],
  ["token", "line\nbreak", TypeError],
  ["isItem", undefined, TypeError],
  ["url", "/relative", TypeError],
  ["url", "ftp://127.0.0.1", TypeError],
  ["url", "http://user:hidden@127.0.0.1", TypeError],
])("refuses %s: %j at once and names it, not its value", (name, value, kind) => {
  const make = () => paginate({ ...GOOD, [name]: value });
  expect(make).toThrow(kind);
  expect(make).toThrow(new RegExp(`^${name} `));
  expect(make).not.toThrow(/with space|line|hidden/);
});

test.each(["/relative", "mailto:x@y", "http://user:hidden@127.0.0.1"])("refuses baseUrl: %s", (baseUrl) => {
  expect(() => listTransactions({ ...GOOD, baseUrl })).toThrow(/^baseUrl /);
  expect(() => listTransactions({ ...GOOD, baseUrl })).not.toThrow("hidden");
});
