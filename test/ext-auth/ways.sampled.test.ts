// A call gets the same answer whatever came before it on its connection, and however it is framed and cut.
import { describe, expect, test, vi } from "vitest";
import { createTokenCheck } from "../exchange/verdicts.ts";
import { cleanupOf, useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, soonMs, within } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { inFull } from "../support/runs.ts";
import { holdIntervals } from "../support/timers.ts";
import { stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();

/** About nothing. */
const callInChunks = "POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

/** The ways to begin a connection. */
const ways = [
  { way: "at first", begin: async () => {} },
  {
    way: "behind a call in chunks",
    begin: async (connection: RawConnection) => {
      expect(valuesOf((await connection.ask(callInChunks)).rawHeaders, "X-Headgate-Status")).toEqual(["404"]);
    },
  },
] as const;

// The id of a request is random unless it has one.
const client = `Host: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Request-Id: 1\r\n${token}`;
const asked = "X-Original-Method: GET\r\nX-Original-URI: /v2/x\r\n";

const corpus: readonly string[] = [
  ...["GET", "HEAD", "POST", "OPTIONS", ...inFull(["PUT", "PATCH", "DELETE"])].flatMap((method) => [
    `${method} /auth-request HTTP/1.1\r\n${client}${asked}\r\n`,
    `${method} /ext-authz/v2/x?a=b HTTP/1.1\r\n${client}Content-Length: 3\r\n\r\nabc`,
    `${method} /forward-auth HTTP/1.1\r\n${client}X-Forwarded-Method: ${method}\r\nX-Forwarded-Uri: /v1/x\r\n\r\n`,
    `${method} /nowhere HTTP/1.1\r\n${client}\r\n`,
    `${method} /ext-authz/elsewhere HTTP/1.1\r\n${client}\r\n`,
  ]),
  ...[
    asked,
    "X-Original-URI: /v2/x\r\n",
    asked.repeat(2),
    asked.replace("GET", "TRACE"),
    asked.replace("GET", "G E T"),
    asked.replace("/v2/x", ""),
    asked.replace("/v2/x", `/v2/${"x".repeat(9000)}`),
    asked.replace("/v2/x", "/v1/..%2fv2/x"),
    asked.replace("/v2/x", "*").replace("GET", "OPTIONS"),
    asked.replaceAll(": ", ":\t "),
    asked.toLowerCase().replace(": get", ": GET"),
    `X-Forwarded-For: 203.0.113.1, 192.0.2.7:80\r\n${asked}`,
    `X-Forwarded-For: [2001:db8::1]:80\r\n${asked}`,
    `X-Forwarded-For: unix:\r\n${asked}`,
    `X-Forwarded-For:\r\n${asked}`,
    `x-forwarded-for: 192.0.2.8\r\nX_Request_Id: 2\r\n${asked}`,
    `Host: b\r\n${asked}`,
    `X-Original-Method: GET\r\nX-Original-URL: https://b:443/v2/x\r\n`,
    `X-Original-URL: http://b?/v2/x\r\n${asked}`,
    `Connection: keep-alive\r\n${asked}`,
    `${asked}${"A: b\r\n".repeat(150)}`,
  ].map((fields) => `GET /auth-request?x HTTP/1.1\r\n${client}${fields}\r\n`),
  `GET /auth-request HTTP/1.1\r\nHost: a\r\n${asked}\r\n`,
  `GET /auth-request HTTP/1.1\r\n${asked}X-Forwarded-For: 192.0.2.1\r\n${token}X-Request-Id: 1\r\n\r\n`,
  `GET /auth-request HTTP/1.1\r\n${client.replace(token, "")}${asked}\r\n`,
  ...["GET /livez", "GET /readyz", "HEAD /readyz"].map((line) => `${line} HTTP/1.1\r\nHost: a\r\n\r\n`),
  // Each of these is the last on its connection.
  ...["GET", "HEAD"].map((method) => `${method} /auth-request HTTP/1.1\r\n${client}${asked}Connection: close\r\n\r\n`),
];

const sumUp = "GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/** All bytes that answer the call on a connection of its own; a kept connection is closed by another call. */
async function answerTo(connection: RawConnection, call: string): Promise<string> {
  connection.write(call);
  await eventually("an answer", () => connection.rest.includes("\r\n\r\n"));
  if (!connection.rest.includes("Connection: close\r\n")) connection.write(sumUp);
  expect(await connection.closed).toBe("end");
  return connection.rest;
}

describe.concurrent("a call gets the same bytes on both ways", () => {
  const rows = [
    { what: "a caller that is trusted", extAuth: {} },
    { what: "with denyStatus 403", extAuth: { denyStatus: 403 as const } },
    { what: "a stranger", extAuth: { trustedCallers: ["203.0.113.1"] } },
  ];
  test.for(rows)("$what", async ({ extAuth }, context) => {
    const cleanup = cleanupOf(context);
    const byWay = await Promise.all(
      ways.map(async ({ begin }) => {
        const { connect } = await stageDecision(cleanup, extAuth, {}, { clock: new FakeClock() });
        const answers: [string, string][] = [];
        // A stranger's connection ends with its first call.
        const isKept = extAuth.trustedCallers === undefined;
        for (const call of isKept ? corpus : corpus.slice(0, 5)) {
          const connection = connect();
          if (isKept) await begin(connection);
          answers.push([call, await answerTo(connection, isKept || begin === ways[0].begin ? call : inChunks(call))]);
        }
        return answers;
      }),
    );
    const statuses = new Set(byWay[0]?.map(([, answer]) => answer.slice(0, 12)));
    expect(statuses.size).toBeGreaterThan(extAuth.trustedCallers === undefined ? 2 : 0);
    expect(byWay[1]?.map(([, answer]) => answer)).toEqual(byWay[0]?.map(([, answer]) => answer));
  });

  test("calls that come again on one connection, and others that differ in one character", async (context) => {
    const cleanup = cleanupOf(context);
    const byWay = await Promise.all(
      ways.map(async ({ begin }) => {
        const { connect } = await stageDecision(cleanup, {}, {}, { clock: new FakeClock() });
        const answers: string[] = [];
        for (const first of corpus.filter((call) => !call.includes("Connection: close"))) {
          const connection = connect();
          await begin(connection);
          const other = first.replace("192.0.2.1", "192.0.2.9");
          for (const call of [first, first, first, other, other, first, first.replace("v2", "v1"), first, other]) {
            const { rawHeaders, ...rest } = await connection.ask(call, { method: call.slice(0, call.indexOf(" ")) });
            answers.push(JSON.stringify([call, rest, rawHeaders]));
          }
          connection.destroy();
        }
        return answers;
      }),
    );
    expect(byWay[1]).toEqual(byWay[0]);
  });
});

/** Over when the test says so. */
const timeouts = { headMs: 3_000, keepAliveMs: 3_000 };

test("empty lines between calls begin no call, and keep no connection open", async () => {
  holdIntervals(cleanup);
  const { connect, gateway } = await stageDecision(cleanup, {}, { timeouts });
  const connection = connect();
  expect((await connection.ask(`\r\n${call}\r\n`)).status).toBe(200);
  await eventually("it is closed", () => {
    connection.write("\r\n");
    vi.advanceTimersByTime(1_000);
    return connection.ending !== null;
  });
  expect(connection.rest).toBe("");
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="malformed"}')).toBe(0);
});

test("connections that ended in any way take no place", async () => {
  holdIntervals(cleanup);
  // One caller gets two: the connection of the moment, and one that the gateway does not know yet to be closed.
  const http = { host: "127.0.0.1", port: 0, maxConnections: 4 };
  const { connect, gateway } = await stageDecision(cleanup, { http }, { timeouts });
  const endings: ((connection: RawConnection) => void)[] = [
    (connection) => connection.destroy(),
    (connection) => connection.socket.resetAndDestroy(),
    (connection) => connection.socket.end(),
    (connection) => connection.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"),
    (connection) => connection.write("?\r\n\r\n"),
    (connection) => connection.write(sumUp),
    (connection) => connection.write(call.slice(0, 20)),
    () => {},
  ];
  for (const { begin } of ways) {
    for (const hasAsked of [false, true]) {
      for (const end of endings) {
        const connection = connect();
        await begin(connection);
        if (hasAsked) expect((await connection.ask(call)).status).toBe(200);
        end(connection);
        await eventually("it is closed", () => {
          vi.advanceTimersByTime(1_000);
          return connection.ending !== null;
        });
      }
    }
  }
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}')).toBe(0);
  await within("the end", gateway.close(), soonMs);
});

/** The same call with its body in chunks. */
function inChunks(call: string): string {
  const [head = "", body = ""] = call.split("\r\n\r\n");
  const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
  return `${head.replace(/\r\nContent-Length: \d+/, "")}\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`;
}

const call = `POST /ext-authz/v2/x HTTP/1.1\r\n${client}Content-Length: 3\r\n\r\nabc`;

test("a call in two packets is answered wherever it is cut, first on a connection or not, and so are those behind it", async () => {
  const { ask, connect, gateway } = await stageDecision(cleanup);
  let admitted = 0;
  for (const cut of [1, 4, 24, call.indexOf("\r\n\r\n") + 2, call.length - 3, call.length - 1]) {
    for (const before of [0, 2]) {
      const connection = connect();
      for (let asked = 0; asked < before; asked += 1) {
        expect((await connection.ask(call)).status).toBe(200);
      }
      connection.write(call.slice(0, cut));
      // Answered after what came before it.
      await ask("/nowhere", "");
      expect([cut, (await connection.ask(call.slice(cut))).status]).toEqual([cut, 200]);
      expect((await connection.ask(call)).status).toBe(200);
      connection.destroy();
      admitted += before + 2;
    }
  }
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="admitted"}')).toBe(admitted);
});

test("calls that are cut anywhere get the answers that they get in one packet", async () => {
  const policies = [slidingPolicy({ limit: 1_000, windowMs: 60_000 })];
  const { connect } = await stageDecision(cleanup, {}, { policies }, { clock: new FakeClock() });
  const sent = [call, inChunks(call), `\r\n${corpus[0]}`, inChunks(corpus[1] ?? ""), call, "?\r\n\r\n", call].join("");
  const answersTo = async (pieces: readonly string[]): Promise<string> => {
    const connection = connect();
    connection.socket.setNoDelay();
    for (const piece of pieces) {
      connection.write(piece);
      // The gateway reads what has been written.
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await connection.closed).toBe("end");
    return connection.rest.replaceAll(/X-Request-Id: .*|R.*-Remaining: .*/g, "");
  };
  const whole = await answersTo([sent]);
  expect(whole.match(/HTTP\/1.1 \d+/g)).toEqual([...Array(5).fill("HTTP/1.1 200"), "HTTP/1.1 400"]);
  expect(await answersTo([...sent])).toBe(whole);
  for (let bytes = 2; bytes < sent.length; bytes += 23) {
    const pieces = sent.match(new RegExp(`[^]{1,${bytes}}`, "g")) ?? [];
    expect([bytes, await answersTo(pieces)]).toEqual([bytes, whole]);
  }
});

test("behind a call whose body a 100 is awaited for, no other call is read", async () => {
  const { connect, gateway } = await stageDecision(cleanup);
  for (const framing of ["Content-Length: 3", "Transfer-Encoding: chunked"]) {
    const connection = connect();
    connection.write(`POST /ext-authz/v2/x HTTP/1.1\r\n${client}${framing}\r\nExpect: 100-continue\r\n\r\n`);
    const { status, rawHeaders } = await connection.read();
    expect([status, valuesOf(rawHeaders, "Connection")]).toEqual([200, ["close"]]);
    connection.write(call);
    expect([await connection.closed, connection.rest]).toEqual(["end", ""]);
  }
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="admitted"}')).toBe(2);
});

test("calls in one packet behind other calls are answered, the last one when the rest of it is here", async () => {
  const { ask, connect } = await stageDecision(cleanup);
  const connection = connect();
  expect((await connection.ask(call)).status).toBe(200);
  connection.write(call.repeat(3) + call.slice(0, 30));
  for (let read = 0; read < 3; read += 1) expect((await connection.read()).status).toBe(200);
  await ask("/nowhere", "");
  expect(connection.rest).toBe("");
  expect((await connection.ask(call.slice(30))).status).toBe(200);
});

// A caller that leaves meanwhile, and a drain whose time is over, are in test/exchange/matrix.test.ts.
describe.each(ways)("while a decision is awaited, $way", ({ begin }) => {
  async function stageLate(overrides = {}) {
    const check = createTokenCheck("later", () => "accepted");
    const stage = await stageDecision(cleanup, {}, overrides, { authenticator: check.authenticator });
    const open = async (): Promise<RawConnection> => {
      const connection = stage.connect();
      await begin(connection);
      connection.write(call);
      return connection;
    };
    return { ...stage, open, check };
  }

  test("calls that come meanwhile are answered after it, in their order", async () => {
    const { ask, open, check } = await stageLate();
    const connection = await open();
    await eventually("the token is checked", () => check.asked() === 1);
    connection.write(`GET /nowhere HTTP/1.1\r\n${client}\r\n`);
    connection.write(call.slice(0, 30));
    await ask("/nowhere", "");
    check.decide();
    for (const status of [200, 404]) expect((await connection.read()).status).toBe(status);
    expect((await connection.ask(call.slice(30))).status).toBe(200);
  });

  test("a caller that sends more and more meanwhile is not read", async () => {
    const { ask, open, check } = await stageLate();
    const connection = await open();
    await eventually("the token is checked", () => check.asked() === 1);
    connection.write(call.repeat(150_000));
    await eventually("no more is taken", async () => {
      const left = connection.socket.writableLength;
      for (let i = 0; i < 10; i += 1) await ask("/nowhere", "");
      return left > 0 && connection.socket.writableLength === left;
    });
    check.decide();
    expect((await connection.read()).status).toBe(200);
  });

  test("a drain waits for the decision, and its answer is the last one", async () => {
    const { open, check, gateway } = await stageLate({ drain: { delayMs: 0, timeoutMs: 5_000 } });
    const connection = await open();
    await eventually("the token is checked", () => check.asked() === 1);
    const drained = gateway.close();
    await eventually("the port is closed", async () => {
      const answer = fetch(gateway.extAuthUrl);
      return answer.then(
        () => false,
        () => true,
      );
    });
    check.decide();
    const { status, rawHeaders } = await connection.read();
    expect([status, rawHeaders.includes("close")]).toEqual([200, true]);
    expect(await connection.closed).toBe("end");
    await drained;
  });
});
