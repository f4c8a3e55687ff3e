// What becomes of an exchange in an app alone: its handlers throw, its own timeout answers, and it closes with requests under
// way. What it has in common with other carriers is in test/exchange/matrix.sampled.test.ts.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import type { AuthOutcome } from "../../src/core/authentication.ts";
import { createTokenCheck, whens } from "../exchange/verdicts.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { sumsOf } from "../support/metrics.ts";
import { request } from "../support/stage.ts";
import { accessLines, startTestApp } from "./app.ts";

const cleanup = useCleanup();

test.each(whens)("a verdict %s: the app throws", async (when) => {
  const { authenticator, asked, decide } = createTokenCheck(when, () => "accepted");
  const stage = await startTestApp(cleanup, {
    authenticator,
    routes: (app) =>
      app.get("/x", () => {
        throw new Error("a bug of the app");
      }),
  });
  const client = stage.connect().write(request("/x"));
  await eventually("the token is checked", () => asked() === 1);
  decide();
  expect((await client.read()).status).toBe(500);
  await eventually("the exchange has ended", () => accessLines(stage).length > 0);
  const { body } = await stage.app.headgate.metrics();
  expect(sumsOf(body, "headgate_requests_total", "headgate_decisions_total")).toEqual([1, 1]);
  const line = { status: 500, complete: true, problem: null, decision: "admitted", remaining: 99 };
  expect(accessLines(stage)).toMatchObject([line]);
  await stage.app.close();
  expect(accessLines(stage)).toHaveLength(1);
});

test("the app's own timeout answers before the verdict: the connection ends, and the exchange once", async () => {
  const decided = Promise.withResolvers<AuthOutcome>();
  const stage = await startTestApp(cleanup, {
    authenticator: { authenticate: () => decided.promise, isKnown: () => false, tokens: () => null, close: () => {} },
    routes: (app) => app.get("/x", { handlerTimeout: 20 }, async () => "never"),
  });
  const client = stage.connect().write(request("/x"));
  await client.closed;
  decided.resolve("accepted");
  await eventually("it is logged", () => accessLines(stage).length === 1);
  expect(accessLines(stage)).toMatchObject([{ complete: false }]);
});

test("the answers behind one that is broken off are told of as well", async () => {
  const stage = await startTestApp(cleanup, { routes: (app) => app.get("/x", () => {}) });
  const client = stage.connect().write(request("/x").repeat(3));
  const { app } = stage;
  await eventually("all have begun", () => stage.lines.filter(({ msg }) => msg === "incoming request").length === 3);
  client.destroy();
  await eventually("all have ended", () => accessLines(stage).length === 3);
  expect(
    accessLines(stage)
      .map(({ complete, remaining }) => `${complete} ${remaining}`)
      .sort(),
  ).toEqual(["false 97", "false 98", "false 99"]);
  await app.close();
  expect(accessLines(stage)).toHaveLength(3);
});

test("while the app closes it serves what comes on an open connection, and ends that", async () => {
  const held = Promise.withResolvers<void>();
  const sockets: Socket[] = [];
  const stage = await startTestApp(cleanup, {
    server: { forceCloseConnections: false },
    before: (app) => app.server.on("connection", (socket) => sockets.push(socket)),
    routes: (app) => {
      app.get("/held", async () => {
        await held.promise;
        return "held";
      });
      app.get("/x", async () => "ok");
    },
  });
  const [busy, other] = [stage.connect(), stage.connect()];
  busy.write(request("/held"));
  // Its head has begun, so it is not idle.
  other.write(request("/x").slice(0, -2));
  await eventually("both are under way", () => sockets.length === 2 && sockets.every(({ bytesRead }) => bytesRead > 0));
  await eventually("the app has one", () => stage.lines.some(({ msg }) => msg === "incoming request"));
  const closed = stage.app.close();
  await eventually("the app closes", () => !stage.app.server.listening);
  const answer = await other.ask("\r\n");
  expect(answer).toMatchObject({ status: 200, body: "ok" });
  expect(answer.rawHeaders).toContain("close");
  expect(answer.rawHeaders).toContain("RateLimit-Remaining");
  held.resolve();
  expect(await busy.read()).toMatchObject({ status: 200, body: "held" });
  await closed;
  expect(accessLines(stage)).toHaveLength(2);
});
