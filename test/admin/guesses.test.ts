// Guesses of tokens: those of the admin API, and those of clients in checks.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Guesses, guessRate, maxGuessers } from "../../src/admin/access.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type Call, readToken, stageApi } from "./api-stage.ts";
import { fakePlane } from "./fake-plane.ts";

const cleanup = useCleanup();

function start() {
  let nowMs = 0;
  const guesses = new Guesses(() => nowMs);
  return {
    guesses,
    pass: (ms: number) => {
      nowMs += ms;
    },
    spend(peer: string) {
      let count = 0;
      while (guesses.waitSeconds(peer) === 0) {
        guesses.failed(peer);
        count += 1;
      }
      return count;
    },
  };
}

test("a peer has its burst, then as many as come back, and waits no longer than it is told", () => {
  const { guesses, spend, pass } = start();
  expect(spend("a")).toBe(guessRate.burst);
  expect(guesses.waitSeconds("a")).toBe(1 / guessRate.perSecond);
  expect(guesses.waitSeconds("b")).toBe(0);
  pass(1000 / guessRate.perSecond - 1);
  expect(guesses.waitSeconds("a")).toBe(1);
  pass(1);
  expect(spend("a")).toBe(1);
});

test("with many peers the newcomers share one budget, and nobody's guesses are forgotten", () => {
  const { guesses, spend, pass } = start();
  for (let i = 0; i < maxGuessers; i += 1) guesses.failed(`peer ${i}`);
  expect(spend("peer 0")).toBe(guessRate.burst - 1);
  expect(spend("new 1")).toBe(guessRate.burst);
  expect(guesses.waitSeconds("new 2")).toBeGreaterThan(0);
  expect(guesses.waitSeconds("peer 0")).toBeGreaterThan(0);
  expect(guesses.waitSeconds("peer 1")).toBe(0);
  pass((guessRate.burst * 1000) / guessRate.perSecond);
  expect(spend("new 2")).toBe(guessRate.burst);
});

describe("a check that names a token", () => {
  const guess = (n: number, name = "Authorization") => ({
    body: {
      method: "GET",
      target: "/v2/me?key=guess",
      client: "203.0.113.7",
      headers: { [name]: `Bearer guess-${n}` },
    },
    token: readToken,
  });

  test.each(["Authorization", "authorization", "AUTHORIZATION"])("spends the budget of guesses: %s", async (name) => {
    const stage = await stageApi(cleanup, fakePlane());
    const free = { body: { method: "GET", target: "/v2/me", client: "203.0.113.7", headers: { "X-Token": "x" } } };
    const statuses = async (count: number, options: Call) => {
      const all = Array.from({ length: count }, () => stage.call("POST", "/api/check", options));
      return (await Promise.all(all)).map(({ status }) => status);
    };
    for (let i = 0; i <= guessRate.burst; i += 10) expect(await statuses(10, free)).toEqual(Array(10).fill(200));
    // At the same time: each is let in before the first of them spends anything.
    for (let i = 0; i < guessRate.burst; i += 10)
      expect(await statuses(10, guess(i, name))).toEqual(Array(10).fill(200));
    const refused = await stage.call("POST", "/api/check", guess(0, name));
    expect(refused.status).toBe(429);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThanOrEqual(1);
    // A peer has one budget for its own tokens and for those that it asks about.
    expect((await stage.call("GET", "/api/status", { token: "wrong" })).status).toBe(429);
    const other = await stage.call("POST", "/api/check", { ...guess(0, name), localAddress: "127.0.0.3" });
    expect(other.status).toBe(200);
  });

  test("is never decided more often than the budget allows, however many are asked at once", async () => {
    const stage = await stageApi(cleanup, fakePlane());
    const count = guessRate.burst + 10;
    const all = Array.from({ length: count }, (_, i) => stage.call("POST", "/api/check", guess(i)));
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(guessRate.burst);
    expect(statuses.filter((status) => status === 429)).toHaveLength(10);
  });

  test("spends it over the Unix socket too, where other calls go on", async () => {
    const socketPath = join(scratchFolder(cleanup), "admin.sock");
    const stage = await stageApi(cleanup, fakePlane(), { socket: socketPath });
    const overSocket = { socketPath, token: null, headers: { host: "localhost" } };
    const check = () => stage.call("POST", "/api/check", { ...guess(0), ...overSocket });
    for (let i = 0; i < guessRate.burst; i += 1) expect((await check()).status).toBe(200);
    expect((await check()).status).toBe(429);
    expect((await stage.call("GET", "/api/status", overSocket)).status).toBe(200);
    expect(stage.audit).toHaveLength(guessRate.burst);
    expect(stage.audit[0]).toMatchObject({ caller: "socket", peer: null, call: "POST /api/check", status: 200 });
  });

  test("is one audit line, with the outcome and without the token; one without a token is none", async () => {
    const stage = await stageApi(cleanup, fakePlane());
    const { headers: _headers, ...body } = guess(0).body;
    expect((await stage.call("POST", "/api/check", { body, token: readToken })).status).toBe(200);
    expect(stage.audit).toEqual([]);
    expect((await stage.call("POST", "/api/check", guess(0))).status).toBe(200);
    const about = { client: "203.0.113.7", auth: expect.any(String) };
    const line = {
      caller: "dashboard",
      peer: "127.0.0.1",
      call: "POST /api/check",
      status: 200,
      before: null,
      after: about,
    };
    expect(stage.audit).toEqual([{ ...line, id: expect.any(String) }]);
    expect(JSON.stringify(stage.audit)).not.toContain("guess");
  });
});
