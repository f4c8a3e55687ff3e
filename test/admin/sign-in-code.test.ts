// The code of a link to the console: it is worth the token once, within a minute, and nothing else anywhere.
import { expect, test } from "vitest";
import { codeLifetimeMs, SignInCode, signInPath } from "../../src/admin/sign-in-code.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type Call, stageApi, writeToken } from "./api-stage.ts";
import { fakePlane } from "./fake-plane.ts";

const cleanup = useCleanup();

async function stage(socket: string | null = null) {
  const clock = { nowMs: 0 };
  const signIn = new SignInCode(writeToken, () => clock.nowMs);
  const api = await stageApi(cleanup, fakePlane(), { signIn, socket });
  const exchange = (options: Call = {}) => api.call("POST", signInPath, { token: signIn.text, ...options });
  return { ...api, clock, code: signIn.text, exchange };
}

test("a code is 256 random bits, and another one each time", async () => {
  const codes = [1, 2, 3].map(() => new SignInCode("x", () => 0).text);
  expect(new Set(codes).size).toBe(3);
  for (const code of codes) expect(Buffer.from(code, "base64url")).toHaveLength(32);
});

test("a code is exchanged once, and the answer is not stored", async () => {
  const { exchange, clock, call } = await stage();
  clock.nowMs = codeLifetimeMs - 1;
  const first = await exchange();
  expect([first.status, first.json]).toEqual([200, { token: writeToken }]);
  expect(first.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  expect(first.headers["access-control-allow-origin"]).toBeUndefined();
  const second = await exchange();
  expect([second.status, second.text.includes(writeToken)]).toEqual([403, false]);
  expect((await call("GET", "/api/status")).status).toBe(200);
});

test("of two pages with one code, one signs in", async () => {
  const { exchange } = await stage();
  const statuses = (await Promise.all([1, 2, 3, 4].map(() => exchange()))).map(({ status }) => status);
  expect(statuses.sort()).toEqual([200, 403, 403, 403]);
});

test("at a minute a code has expired, and stays so", async () => {
  const { exchange, clock } = await stage();
  clock.nowMs = codeLifetimeMs;
  expect((await exchange()).status).toBe(403);
  clock.nowMs = 0;
  expect((await exchange()).status).toBe(403);
});

test.each([
  ["no code", { token: null }, 403],
  ["a wrong code", { token: "a".repeat(43) }, 403],
  ["the token itself", { token: writeToken }, 403],
  ["a page of another origin", { headers: { origin: "https://evil.example" } }, 403],
  ["a page of another site", { headers: { "sec-fetch-site": "cross-site" } }, 403],
  ["a host that was made to point here", { headers: { host: "evil.example" } }, 421],
] as [string, Call, number][])(
  "%s gets %3$i and no token, and does not use the code up",
  async (_what, options, status) => {
    const { exchange } = await stage();
    for (let i = 0; i < 50; i += 1) {
      const answer = await exchange(options);
      expect([answer.status, answer.text.includes(writeToken)]).toEqual([status, false]);
    }
    expect((await exchange()).status).toBe(200);
  },
);

test("a code is no token of the API, and the call has no other method or spelling", async () => {
  const { call, code, exchange, audit, failures } = await stage();
  expect((await call("GET", "/api/status", { token: code })).status).toBe(401);
  expect((await call("GET", signInPath, { token: code })).status).toBe(404);
  expect((await call("POST", `${signInPath}?x`, { token: code })).status).toBe(405);
  expect((await exchange()).status).toBe(200);
  expect([audit, failures]).toEqual([[], []]);
});

test("over the Unix socket, where calls need no token, the exchange needs the code", async () => {
  const socketPath = `${scratchFolder(cleanup)}/admin.sock`;
  const { exchange } = await stage(socketPath);
  const headers = { host: "localhost" };
  expect((await exchange({ socketPath, headers, token: null })).status).toBe(403);
  expect((await exchange({ socketPath, headers })).json).toEqual({ token: writeToken });
});

test("without a printed link there is no such call", async () => {
  const { call, code } = { ...(await stage()), ...(await stageApi(cleanup, fakePlane())) };
  expect((await call("POST", signInPath, { token: code })).status).toBe(405);
});
