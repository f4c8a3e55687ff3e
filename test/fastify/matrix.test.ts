// As in test/exchange/matrix.test.ts, for the plugin: whenever the verdict is known and whatever happens to a request then,
// its exchange ends once, is charged once, logged once and counted once.
import type { Socket } from "node:net";
import type { FastifyReply } from "fastify";
import { describe, expect, test } from "vitest";
import type { AuthOutcome } from "../../src/core/authentication.ts";
import { createTokenCheck, type TokenCheck, upstreams, type When, whens } from "../exchange/verdicts.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { sumsOf } from "../support/metrics.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { accessLines, startTestApp, type TestApp } from "./app.ts";

const cleanup = useCleanup();

/** What the app does with a request: answers it, nothing, begins an answer and stops, or throws. */
const handlers = {
  answers: (reply: FastifyReply) => void reply.send("ok"),
  holds: () => {},
  begins: (reply: FastifyReply) => void reply.hijack().raw.writeHead(200, { "Content-Length": "10" }).write("half."),
  throws: () => {
    throw new Error("a bug of the app");
  },
} as const;

interface Stage extends TestApp, Pick<TokenCheck, "asked" | "decide"> {
  /** Requests that the app's handler has, or its upstream. */
  readonly atApp: () => number;
  readonly client: RawConnection;
}

interface Options {
  readonly handler?: keyof typeof handlers;
  readonly outcome?: () => AuthOutcome;
  /** What an upstream does with the request, in the place of the app. */
  readonly upstream?: keyof typeof upstreams;
  /** Default: longer than any test waits, so that only the tests of this time see its end. */
  readonly responseTimeout?: string;
  readonly bodyTimeout?: string;
}

async function stageOf(when: When, options: Options = {}): Promise<Stage> {
  const {
    handler = "answers",
    outcome = () => "accepted",
    upstream,
    responseTimeout = "60s",
    bodyTimeout = "60s",
  } = options;
  let atApp = 0;
  const { authenticator, asked, decide } = createTokenCheck(when, outcome);
  const raw = await startRawUpstream((socket) => {
    atApp += 1;
    if (upstream !== undefined) socket.write(upstreams[upstream]);
  });
  cleanup(() => raw.close());
  const stage = await startTestApp(cleanup, {
    authenticator,
    ...(upstream === undefined ? {} : { options: { upstream: { url: raw.url, responseTimeout, bodyTimeout } } }),
    routes: (app) =>
      app.get("/own", (_request, reply) => {
        atApp += 1;
        return handlers[handler](reply);
      }),
  });
  const client = stage.connect();
  client.write(request(upstream === undefined ? "/own" : "/x"));
  await eventually("the token is checked", () => asked() === 1);
  return { ...stage, asked, atApp: () => atApp, decide, client };
}

/** It is over: told of once now, and once still when the app has closed. */
async function expectOnce(stage: Stage, expected: object): Promise<void> {
  await eventually("the exchange has ended", () => accessLines(stage).length > 0);
  // Read once, because that takes as long as the rest of a test.
  const { body } = await stage.app.headgate.metrics();
  expect(sumsOf(body, "headgate_requests_total", "headgate_decisions_total")).toEqual([1, 1]);
  expect(accessLines(stage)).toMatchObject([expected]);
  await stage.app.close();
  expect(accessLines(stage)).toHaveLength(1);
}

async function leave({ app, client }: Stage): Promise<void> {
  client.destroy();
  const connections = (): Promise<number> =>
    new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count)));
  await eventually("the connection has closed", async () => (await connections()) === 0);
}

const charged = { decision: "admitted", remaining: 99 };

describe.each(whens)("a verdict %s", (when) => {
  const admitted = async (options: Options): Promise<Stage> => {
    const stage = await stageOf(when, options);
    stage.decide();
    await eventually("the app has it", () => stage.atApp() === 1);
    return stage;
  };

  test("is answered", async () => {
    const stage = await admitted({});
    expect(await stage.client.read()).toMatchObject({ status: 200, body: "ok" });
    await expectOnce(stage, { status: 200, complete: true, problem: null, ...charged });
  });

  test("refuses", async () => {
    const stage = await stageOf(when, { outcome: () => "invalid" });
    stage.decide();
    expect((await stage.client.read()).status).toBe(401);
    await expectOnce(stage, { status: 401, complete: true, problem: "invalid_token", ...charged });
    expect(stage.atApp()).toBe(0);
  });

  test("a step throws", async () => {
    const stage = await stageOf(when, {
      outcome: () => {
        throw new Error("a bug");
      },
    });
    stage.decide();
    expect((await stage.client.read()).status).toBe(500);
    await expectOnce(stage, { status: 500, problem: "internal", decision: "observed" });
    expect(stage.lines.filter(({ msg }) => msg === "internal error")).toHaveLength(1);
  });

  test("the app throws", async () => {
    const stage = await admitted({ handler: "throws" });
    expect((await stage.client.read()).status).toBe(500);
    await expectOnce(stage, { status: 500, complete: true, problem: null, ...charged });
  });

  test("the client leaves while the app works", async () => {
    const stage = await admitted({ handler: "holds" });
    await leave(stage);
    await expectOnce(stage, { status: 0, complete: false, ...charged });
  });

  test("the client leaves in the middle of its answer", async () => {
    const stage = await admitted({ handler: "begins" });
    await stage.client.readHead();
    await leave(stage);
    await expectOnce(stage, { status: 200, complete: false, ...charged });
  });

  test("the client leaves after its answer", async () => {
    const stage = await admitted({});
    await stage.client.read();
    await leave(stage);
    await expectOnce(stage, { status: 200, complete: true, ...charged });
  });

  test.each([
    ["while the app works", "holds", { status: 0, complete: false }],
    ["in the middle of the answer", "begins", { status: 200, complete: false }],
  ] as const)("the app closes, %s", async (_, handler, expected) => {
    const stage = await admitted({ handler });
    if (handler === "begins") await stage.client.readHead();
    await stage.app.close();
    expect(accessLines(stage)).toMatchObject([{ ...expected, ...charged }]);
  });
});

describe.each(whens)("a verdict %s, to the upstream", (when) => {
  const forwarded = async (upstream: keyof typeof upstreams, options: Options = {}): Promise<Stage> => {
    const stage = await stageOf(when, { ...options, upstream });
    stage.decide();
    await eventually("the upstream has it", () => stage.atApp() === 1);
    return stage;
  };

  test("is answered", async () => {
    const stage = await forwarded("answers");
    expect(await stage.client.read()).toMatchObject({ status: 200, body: "ok" });
    await expectOnce(stage, { status: 200, complete: true, problem: null, ...charged });
  });

  test.each([
    ["while the upstream is waited for", "holds", { status: 0, complete: false }],
    ["in the middle of its answer", "begins", { status: 200, complete: false }],
  ] as const)("the client leaves %s", async (_, upstream, expected) => {
    const stage = await forwarded(upstream);
    if (upstream === "begins") await stage.client.readHead();
    await leave(stage);
    await expectOnce(stage, { ...expected, ...charged });
  });

  test.each([
    ["while the upstream is waited for", "holds", { status: 0, complete: false }],
    ["in the middle of the answer", "begins", { status: 200, complete: false }],
  ] as const)("the app closes %s", async (_, upstream, expected) => {
    const stage = await forwarded(upstream);
    if (upstream === "begins") await stage.client.readHead();
    await stage.app.close();
    expect(accessLines(stage)).toMatchObject([{ ...expected, ...charged }]);
  });

  test("the upstream's time is over", async () => {
    const stage = await forwarded("holds", { responseTimeout: "100ms" });
    expect((await stage.client.read()).status).toBe(504);
    await expectOnce(stage, { status: 504, complete: true, problem: "upstream_timeout", ...charged });
  });

  test("the upstream's time is over in the middle of the answer", async () => {
    const stage = await forwarded("begins", { bodyTimeout: "300ms" });
    await expectOnce(stage, { status: 200, complete: false, ...charged });
  });
});

describe("a verdict later", () => {
  test("the client leaves before it", async () => {
    const stage = await stageOf("later");
    await leave(stage);
    expect(accessLines(stage)).toEqual([]);
    stage.decide();
    await expectOnce(stage, { status: 0, complete: false, ...charged });
    expect(stage.atApp()).toBe(0);
  });

  test("the app closes before it", async () => {
    const stage = await stageOf("later");
    await stage.app.close();
    expect(accessLines(stage)).toMatchObject([{ complete: false }]);
    stage.decide();
    await new Promise((resolve) => setImmediate(resolve));
    expect(accessLines(stage)).toHaveLength(1);
    expect(stage.atApp()).toBe(0);
  });

  test("the app's own timeout answers before it: the connection ends, and the exchange once", async () => {
    const decided = Promise.withResolvers<AuthOutcome>();
    const stage = await startTestApp(cleanup, {
      authenticator: { authenticate: () => decided.promise, isKnown: () => false, tokens: () => null, close: () => {} },
      routes: (app) => app.get("/x", { handlerTimeout: 20 }, async () => "never"),
    });
    const client = stage.connect();
    client.write(request("/x"));
    await client.closed;
    decided.resolve("accepted");
    await eventually("it is logged", () => accessLines(stage).length === 1);
    expect(accessLines(stage)).toMatchObject([{ complete: false }]);
  });
});

test("the answers behind one that is broken off are told of as well", async () => {
  const stage = await startTestApp(cleanup, { routes: (app) => app.get("/x", () => {}) });
  const client = stage.connect();
  client.write(request("/x").repeat(3));
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
  other.write("\r\n");
  const answer = await other.read();
  expect(answer).toMatchObject({ status: 200, body: "ok" });
  expect(answer.rawHeaders).toContain("close");
  expect(answer.rawHeaders).toContain("RateLimit-Remaining");
  held.resolve();
  expect(await busy.read()).toMatchObject({ status: 200, body: "held" });
  await closed;
  expect(accessLines(stage)).toHaveLength(2);
});
