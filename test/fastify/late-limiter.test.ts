// As in test/exchange/late-limiter.test.ts, for the plugin: whenever the limiter decides, a request is answered with its
// fields or not at all, its exchange ends once, and what was taken for it is given back.
import { expect, test } from "vitest";
import { answers, useLateLimiter } from "../exchange/late-limiter.ts";
import { whens } from "../exchange/verdicts.ts";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request } from "../support/stage.ts";
import { accessLines, startTestApp } from "./app.ts";

const cleanup = useCleanup();
const limiter = useLateLimiter();

/** A slot that is not given back refuses the next request. */
async function stage() {
  let atApp = 0;
  const app = await startTestApp(cleanup, {
    options: {
      policies: [
        { name: "per-ip", limit: 100, window: "60s" },
        { name: "at-once", concurrency: 1 },
      ],
    },
    routes: (own) =>
      own.get("/x", async () => {
        atApp += 1;
        return "ok";
      }),
  });
  return { ...app, atApp: () => atApp };
}

const told = {
  admitted: { status: 200, problem: null, decision: "admitted" },
  throttled: { status: 429, problem: "throttled", decision: "throttled" },
  unavailable: { status: 503, problem: "store_unavailable", decision: "unavailable" },
  fails: { status: 500, problem: "internal", decision: "observed" },
} as const;

test.each(whens)("every answer has its fields, %s", async (when) => {
  const own = await stage();
  const client = own.connect();
  for (const [i, answer] of answers.entries()) {
    limiter.says(answer, when);
    client.write(request("/x"));
    await eventually("the limiter is asked", () => limiter.asked() === 1);
    limiter.decide();
    const response = await client.read();
    expect(response.status).toBe(told[answer].status);
    const [remaining = ""] = valuesOf(response.rawHeaders, "RateLimit-Remaining");
    const [limit = ""] = valuesOf(response.rawHeaders, "RateLimit-Limit");
    expectContractFields(response, { limit: Number(limit), remaining: Number(remaining) });
    expect(valuesOf(response.rawHeaders, "Retry-After")).toHaveLength(answer === "throttled" ? 1 : 0);
    await eventually("the exchange has ended", () => accessLines(own).length === i + 1);
    expect(accessLines(own).at(-1)).toMatchObject({ ...told[answer], complete: true });
  }
  expect(own.atApp()).toBe(1);
  expect(limiter.held()).toEqual({ now: 0, ever: 1 });
});

test("the client leaves before the decision: it is made all the same, and gives back what it took", async () => {
  const own = await stage();
  for (const [i, answer] of answers.entries()) {
    limiter.says(answer, "later");
    const client = own.connect();
    client.write(request("/x"));
    await eventually("the limiter is asked", () => limiter.asked() === 1);
    client.destroy();
    await eventually("the connection has closed", () => connectionsOf(own.app.server).then((count) => count === 0));
    limiter.decide();
    await eventually("the exchange has ended", () => accessLines(own).length === i + 1);
    expect(accessLines(own).at(-1)).toMatchObject({ decision: told[answer].decision, complete: false });
  }
  expect(own.atApp()).toBe(0);
  expect(limiter.held()).toEqual({ now: 0, ever: 1 });
});

function connectionsOf(server: { getConnections(counted: (error: Error | null, count: number) => void): unknown }) {
  return new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
}

test("the app closes before the decision, and what it takes afterwards is given back", async () => {
  const own = await stage();
  limiter.says("admitted", "later");
  own.connect().write(request("/x"));
  await eventually("the limiter is asked", () => limiter.asked() === 1);
  await own.app.close();
  expect(accessLines(own)).toMatchObject([{ complete: false }]);
  limiter.decide();
  await eventually("the decision is made", () => limiter.held().ever === 1 && limiter.held().now === 0);
  expect([accessLines(own).length, own.atApp()]).toEqual([1, 0]);
});
