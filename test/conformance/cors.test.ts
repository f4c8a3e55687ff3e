// Browsers: which requests pass without a token because they are preflights of a listed origin, and what pages of such
// an origin may read of the gateway's own responses.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { response, stageRaw } from "../support/stage.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const page = "https://app.example";
const cors = { origins: [page, "http://localhost:5173"] };
const asked = "Access-Control-Request-Method: GET\r\n";
const exposed =
  "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, " +
  "Retry-After, Date, X-Request-Id";

/** Without a token. `fields` are whole lines. */
const options = (fields: string, method = "OPTIONS"): string => `${method} /v2/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
const preflight = `Origin: ${page}\r\n${asked}`;
const upstreamCors = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: Authorization\r\n";

async function start(overrides: Overrides = {}) {
  const answer = response("", upstreamCors, "200 OK");
  const stage = await stageRaw(cleanup, (socket) => void socket.write(answer), { cors, ...overrides });
  const ask = async (bytes: string) => {
    const client = stage.connect().write(bytes);
    return client.read();
  };
  return { ...stage, ask };
}

const corsFields = (rawHeaders: readonly string[]): Record<string, string[]> =>
  Object.fromEntries(
    ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary"].map((name) => [
      name,
      valuesOf([...rawHeaders], name),
    ]),
  );
const readable = (origin: string, names = exposed) => ({
  "Access-Control-Allow-Origin": [origin],
  "Access-Control-Expose-Headers": [names],
  Vary: ["Origin"],
});
const hidden = { "Access-Control-Allow-Origin": [], "Access-Control-Expose-Headers": [], Vary: [] };

describe("a preflight of a listed origin", () => {
  test.each([
    ["read by our own parser", ""],
    // Our own parser takes fewer empty lines.
    ["read by Node's", "", "\r\n".repeat(33)],
    ["that names its own headers in Connection", "Connection: origin, access-control-request-method\r\n"],
  ])("%s passes without a token, is charged, and is answered by the upstream alone", async (_, more, before = "") => {
    const { ask, gateway, upstream } = await start();
    const { status, rawHeaders } = await ask(before + options(preflight + more));
    expect(status).toBe(200);
    expect(valuesOf(rawHeaders, "RateLimit-Remaining")).toEqual(["99"]);
    expect(corsFields(rawHeaders)).toEqual({ ...readable("*"), Vary: [] });
    expect(valuesOf(rawHeaders, "Access-Control-Allow-Headers")).toEqual(["Authorization"]);
    expect(upstream.bytes()).toContain(`\r\nOrigin: ${page}\r\n${asked}`);
    expect(await metric(gateway, 'headgate_auth_total{outcome="skipped"}')).toBe(1);
  });

  test.each([
    ["in odd case", "HTTPS://App.EXAMPLE"],
    ["with a port", "http://localhost:5173"],
  ])("%s is one", async (_, origin) => {
    const { ask } = await start();
    expect((await ask(options(`oRIGIN: ${origin}\r\n${asked}`))).status).toBe(200);
  });

  test("over the limit is 429, like any other request", async () => {
    const { ask } = await start({ policies: [slidingPolicy({ limit: 1, windowMs: 60_000 })] });
    expect((await ask(options(preflight))).status).toBe(200);
    const { status, rawHeaders } = await ask(options(preflight));
    expect(status).toBe(429);
    expect(corsFields(rawHeaders)).toEqual(readable(page));
  });
});

// What is no preflight: core/preflights.test.ts.
describe("needs its token, and is charged:", () => {
  test.each<[claim: string, bytes: string, readableBy: string | null]>([
    ["an origin that is not listed", options(`Origin: https://b.example\r\n${asked}`), null],
    ["two origins, one of them listed", options(`${preflight}Origin: https://b\r\n`), null],
    ["another method", options(preflight, "GET"), page],
  ])("%s", async (_, bytes, readableBy) => {
    const { ask, upstream } = await start();
    const { status, rawHeaders } = await ask(bytes);
    expect(status).toBe(401);
    expect(valuesOf(rawHeaders, "RateLimit-Remaining")).toEqual(["99"]);
    expect(corsFields(rawHeaders)).toEqual(readableBy === null ? hidden : readable(readableBy));
    expect(upstream.bytes()).toBe("");
  });

  test("without cors in the configuration every preflight, and no page reads a refusal", async () => {
    const { ask, upstream } = await start({ cors: { origins: [] } });
    const { status, rawHeaders } = await ask(options(preflight));
    expect([status, corsFields(rawHeaders), upstream.bytes()]).toEqual([401, hidden, ""]);
  });
});

test("a reload changes the origins, for preflights and for what pages can read", async () => {
  const { ask, gateway, upstream } = await start({ cors: { origins: [] } });
  const settings = (origins: readonly string[]) =>
    testSettings(upstream.url, { drain: { timeoutMs: 0 }, cors: { origins } });
  const asks = async () => {
    const { status } = await ask(options(preflight));
    const { rawHeaders } = await ask(options(`Origin: ${page}\r\n`, "GET"));
    const call = await ask(options(`Origin: ${page}\r\nAuthorization: Bearer t\r\n`, "GET"));
    return [status, corsFields(rawHeaders), corsFields(call.rawHeaders)];
  };
  expect(await asks()).toEqual([401, hidden, { ...hidden, "Access-Control-Allow-Origin": ["*"] }]);
  expect(await gateway.reload(settings([page]))).toMatchObject({ ok: true, changed: ["cors.origins"] });
  expect(await asks()).toEqual([200, readable(page), { ...readable("*"), Vary: [] }]);
});

describe("a response of the gateway's own", () => {
  test.each<[status: number, bytes: string, overrides: Overrides]>([
    [401, options(`Origin: ${page}\r\n`, "GET"), {}],
    [400, options(`Origin: ${page}\r\n`, "GET").replace("Host: a\r\n", ""), {}],
    [404, options(preflight).replace("/v2/", "/elsewhere/"), {}],
    [404, options(`${preflight}Max-Forwards: 0\r\n`), {}],
    [204, options(`Origin: ${page}\r\n`).replace("/v2/x", "*"), {}],
    [413, options(`Origin: ${page}\r\nAuthorization: Bearer t\r\nContent-Length: 99\r\n`, "POST"), { maxBodyBytes: 9 }],
    [502, options(preflight), { upstream: { url: deadUrl } }],
  ])("with %i can be read by a page of a listed origin", async (status, bytes, overrides) => {
    const { ask } = await start(overrides);
    const answer = await ask(bytes);
    expect(answer.status).toBe(status);
    expect(corsFields(answer.rawHeaders)).toEqual(readable(page));
  });

  test("names the origin in lower case, however it was written, and only the headers that are configured", async () => {
    const { ask } = await start({ fields: ["legacy", "structured"] });
    const { rawHeaders } = await ask(options("Origin: HTTP://LocalHost:5173\r\n", "GET"));
    const names =
      "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, Date, X-Request-Id";
    expect(corsFields(rawHeaders)).toEqual(readable("http://localhost:5173", names));
  });
});
