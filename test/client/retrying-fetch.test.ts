// What createRetryingFetch waits for, and what it never sends again.
import { describe, expect, test } from "vitest";
import { createRetryingFetch, type RetryingFetchOptions } from "../../src/client/index.ts";
import { notedSleep, refusing, serve, TOO_MANY } from "./server.ts";

/** Half the jitter, no time spent. */
function patience(options: RetryingFetchOptions = {}) {
  const { waitsMs, sleep } = notedSleep();
  return { waitsMs, fetch: createRetryingFetch({ sleep, random: () => 0.5, ...options }) };
}

describe("how long it waits", () => {
  const DATE = "Sun, 06 Nov 1994 08:49:37 GMT";
  test.each([
    ["the seconds of Retry-After", { "retry-after": "7" }, 7_000],
    [
      "until the date of Retry-After by the server's own clock",
      { date: DATE, "retry-after": "Sun, 06 Nov 1994 08:49:40 GMT" },
      3_000,
    ],
    [
      "the same for a date in the form of RFC 850",
      { date: DATE, "retry-after": "Sunday, 06-Nov-94 08:50:37 GMT" },
      60_000,
    ],
    [
      "the same for a date in the form of asctime",
      { date: DATE, "retry-after": "Sun Nov  6 09:49:37 1994" },
      3_600_000,
    ],
    ["a back-off when Retry-After is missing", {}, 500],
    ["a back-off when Retry-After is 0", { "retry-after": "0" }, 500],
    ["a back-off when Retry-After is past", { date: DATE, "retry-after": "Sun, 06 Nov 1994 08:49:36 GMT" }, 500],
    ["a back-off when Retry-After is negative", { "retry-after": "-5" }, 500],
    ["a back-off when Retry-After is no date", { date: DATE, "retry-after": "Sun, 31 Feb 2030 08:49:36 GMT" }, 500],
    ["a back-off when Retry-After is words", { "retry-after": "soon 2" }, 500],
  ])("%s", async (_name, headers, waitMs) => {
    const server = await serve(refusing(1, headers));
    const { waitsMs, fetch } = patience({ maxWaitMs: 1e9 });
    expect(await (await fetch(server.url)).text()).toBe("ok");
    expect(waitsMs).toEqual([waitMs]);
  });

  test("reads the wall clock for a date only when the response has no Date", async () => {
    const server = await serve((response, hit, nth) => {
      response.sendDate = false;
      refusing(1, { "retry-after": "Thu, 01 Jan 1970 00:01:00 GMT" })(response, hit, nth);
    });
    const { waitsMs, fetch } = patience({ wallMs: () => 15_000 });
    expect((await fetch(server.url)).status).toBe(200);
    expect(waitsMs).toEqual([45_000]);
  });

  test("doubles the back-off at each attempt, up to 30 s", async () => {
    const server = await serve(refusing(8));
    const { waitsMs, fetch } = patience({ maxAttempts: 9, random: () => 1 - Number.EPSILON });
    expect((await fetch(server.url)).status).toBe(200);
    expect(waitsMs.map(Math.round)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  });
});

describe("when it stops", () => {
  test("after maxAttempts it hands over the 429, its body unread", async () => {
    const server = await serve(refusing(99, { "retry-after": "1" }));
    const response = await patience({ maxAttempts: 3 }).fetch(server.url);
    expect([response.status, await response.text()]).toEqual([429, TOO_MANY]);
    expect(server.hits).toHaveLength(3);
  });

  test("a Retry-After beyond maxWaitMs hands over the 429 at once", async () => {
    const server = await serve(refusing(99, { "retry-after": "61" }));
    const { waitsMs, fetch } = patience({ maxWaitMs: 60_000 });
    const response = await fetch(server.url);
    expect([response.status, await response.text(), waitsMs]).toEqual([429, TOO_MANY, []]);
  });

  test("maxWaitMs bounds the sum of the waits, and a wait that fits exactly is made", async () => {
    const server = await serve(refusing(99, { "retry-after": "20" }));
    const { waitsMs, fetch } = patience({ maxWaitMs: 60_000, maxAttempts: 10 });
    expect((await fetch(server.url)).status).toBe(429);
    expect(waitsMs).toEqual([20_000, 20_000, 20_000]);
  });

  test("a Retry-After of more digits than a number holds is no endless wait", async () => {
    const server = await serve(refusing(99, { "retry-after": "9".repeat(400) }));
    const { waitsMs, fetch } = patience({ maxWaitMs: Number.MAX_VALUE });
    expect((await fetch(server.url)).status).toBe(429);
    expect(waitsMs).toEqual([]);
  });
});

describe("what it never sends again", () => {
  test.each([200, 204, 304, 400, 401, 404, 408, 500, 502, 503, 504])("a request answered %i", async (status) => {
    const server = await serve((response) => void response.writeHead(status, { "retry-after": "1" }).end());
    expect((await patience().fetch(server.url)).status).toBe(status);
    expect(server.hits).toHaveLength(1);
  });

  test("a request whose connection broke", async () => {
    const server = await serve((response) => void response.destroy());
    await expect(patience().fetch(server.url, { method: "POST", body: "{}" })).rejects.toThrow(TypeError);
    expect(server.hits).toHaveLength(1);
  });

  test("a body that streams, once sent, gets its 429 back whole", async () => {
    const server = await serve(refusing(1, { "retry-after": "1" }));
    const body = new Blob(["streamed"]).stream();
    const response = await patience().fetch(server.url, { method: "POST", body, duplex: "half" });
    expect([response.status, await response.text(), server.hits.length]).toEqual([429, TOO_MANY, 1]);
  });

  test("nor a Request with a body", async () => {
    const server = await serve(refusing(1, { "retry-after": "1" }));
    const response = await patience().fetch(new Request(server.url, { method: "POST", body: "text" }));
    expect([response.status, server.hits.length]).toEqual([429, 1]);
  });
});

describe("what it sends again, whole", () => {
  const form = new FormData();
  form.set("field", "body");
  test.each<[string, NonNullable<RequestInit["body"]>]>([
    ["text", "body"],
    ["bytes", new TextEncoder().encode("body")],
    ["a buffer", new TextEncoder().encode("body").buffer],
    ["a Blob", new Blob(["body"])],
    ["a form", form],
    ["a query", new URLSearchParams({ body: "" })],
  ])("a POST of %s", async (_name, body) => {
    const server = await serve(refusing(2, { "retry-after": "1" }));
    const { fetch } = patience();
    expect((await fetch(server.url, { method: "POST", body, headers: { "x-kept": "yes" } })).status).toBe(200);
    expect(server.hits.map(({ method }) => method)).toEqual(["POST", "POST", "POST"]);
    for (const hit of server.hits) {
      expect(hit.body).toContain("body");
      expect(hit.headers["x-kept"]).toBe("yes");
    }
  });

  test("a Request without a body", async () => {
    const server = await serve(refusing(1, { "retry-after": "1" }));
    expect((await patience().fetch(new Request(`${server.url}/v2/me`))).status).toBe(200);
    expect(server.hits.map(({ target }) => target)).toEqual(["/v2/me", "/v2/me"]);
  });
});

test("frees the connection of a 429 that it discards, even one whose body never ends", async () => {
  const server = await serve((response, _hit, nth) => {
    if (nth > 1) response.end("ok");
    else response.writeHead(429, { "retry-after": "1" }).write("and on and on");
  });
  const sleep = async () => server.hits[0]?.closed;
  expect(await (await createRetryingFetch({ sleep })(server.url)).text()).toBe("ok");
});

test.each<[string, unknown, typeof RangeError | typeof TypeError]>([
  ["maxAttempts", 0, RangeError],
  ["maxAttempts", 1.5, RangeError],
  ["maxAttempts", "3", RangeError],
  ["maxWaitMs", -1, RangeError],
  ["maxWaitMs", Number.POSITIVE_INFINITY, RangeError],
  ["baseDelayMs", 0, RangeError],
  ["baseDelayMs", Number.NaN, RangeError],
  ["fetch", "fetch", TypeError],
  ["random", 4, TypeError],
  ["sleep", {}, TypeError],
  ["wallMs", 0, TypeError],
])("refuses %s: %s and names it", (name, value, kind) => {
  const make = () => createRetryingFetch({ [name]: value });
  expect(make).toThrow(kind);
  expect(make).toThrow(name);
});
