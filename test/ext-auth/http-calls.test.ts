// Checks over HTTP, as each ingress documents what it sends, against the real gateway: one pipeline, one
// quota, and a client that can write any field which its ingress does not set.
import { describe, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { beforeReads, eventually, within } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { holdIntervals } from "../support/timers.ts";
import { stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();

/** What an ingress adds to a client's own fields, for a GET of /v2/x. */
const calls = {
  nginx: { target: "/auth-request", fields: "X-Original-Method: GET\r\nX-Original-URI: /v2/x\r\n" },
  forwardAuth: { target: "/forward-auth", fields: "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v2/x\r\n" },
  extAuthz: { target: "/ext-authz/v2/x", fields: "" },
} as const;
const kinds = Object.entries(calls).map(([kind, call]) => ({ kind, ...call }));
const from = (addresses: string): string => `X-Forwarded-For: ${addresses}\r\n`;

describe.each(kinds)("$kind", ({ target, fields }) => {
  test("the peer of the ingress is charged, whatever the client says of itself", async () => {
    const { ask, gateway } = await stageDecision(cleanup);
    const lies = [
      from("203.0.113.1, 192.0.2.1:1234"),
      `Forwarded: for=203.0.113.1\r\n${from("203.0.113.2")}${from("192.0.2.1")}`,
      `X-Real-IP: 203.0.113.1\r\n${from("garbage, 192.0.2.1")}`,
    ];
    for (const [i, lie] of lies.entries()) {
      const { rawHeaders } = await ask(target, lie + token + fields);
      expect(valuesOf(rawHeaders, "RateLimit-Remaining")).toEqual([`${99 - i}`]);
    }
    const lines = gateway.logLines.filter(({ source }) => source === "ext-auth");
    expect(lines.map(({ client }) => client)).toEqual(["192.0.2.1", "192.0.2.1", "192.0.2.1"]);
  });

  test("a trusted peer of the ingress names the client, in the field that an ingress writes", async () => {
    const clientAddress = { trustedProxies: ["192.0.2.0/24"], header: "forwarded" } as const;
    const { ask, gateway } = await stageDecision(cleanup, {}, { clientAddress });
    const names = `Forwarded: for=203.0.113.9\r\n${from("198.51.100.1, 203.0.113.1, 192.0.2.1")}`;
    await ask(target, names + token + fields);
    expect(gateway.logLines.find(({ source }) => source === "ext-auth")?.["client"]).toBe("203.0.113.1");
  });

  test("what Connection names is read all the same", async () => {
    const clientAddress = { trustedProxies: ["192.0.2.0/24"], header: "x-forwarded-for" } as const;
    const { ask, gateway } = await stageDecision(cleanup, {}, { clientAddress });
    const named = ["X-Forwarded-For", "Authorization", "Host", "X-Request-Id", "X-Original-URI", "X-Original-Method"];
    const told = `X-Request-Id: told\r\n${from("203.0.113.1, 192.0.2.1")}${token}${fields}`;
    for (const connection of [...named, named.join(", ")]) {
      const answer = await ask(target, `Connection: ${connection}\r\n${told}`);
      expect([connection, answer.status]).toEqual([connection, 200]);
      expect(valuesOf(answer.rawHeaders, "X-Request-Id")).toEqual(["told"]);
    }
    const lines = gateway.logLines.filter(({ source }) => source === "ext-auth");
    expect(lines.map(({ client }) => client)).toEqual(lines.map(() => "203.0.113.1"));
    expect(lines).toHaveLength(7);
  });

  test("no address at the end of X-Forwarded-For is a clear 400 and charges nobody", async () => {
    const { ask, gateway } = await stageDecision(cleanup);
    const lines = ["", "X-Forwarded-For: \r\n", from("192.0.2.1, unix:"), from("192.0.2.1,")];
    for (const line of lines) {
      const answer = await ask(target, line + token + fields);
      expect([line, answer.status]).toEqual([line, 400]);
      expect(JSON.parse(answer.body).errors[0].errMsg).toMatch(/^X-Forwarded-For has to end with/);
      expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual(["400"]);
    }
    expect(await metric(gateway, 'headgate_clients_tracked{policy="per-ip"}')).toBe(0);
    expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="malformed"}')).toBe(lines.length);
    const detail = "X-Forwarded-For has to end with the address of the client.";
    expect(gateway.logLines).toContainEqual(
      expect.objectContaining({ reason: "malformed", caller: "127.0.0.1", detail }),
    );
  });
});

test("bytes that are no call are refused with the rule that they break", async () => {
  const { connect, gateway } = await stageDecision(cleanup);
  const caller = connect();
  expect((await caller.ask("GET /auth-request HTTP/1.1\r\nHost: a\r\nX : secret\r\n\r\n")).status).toBe(400);
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({ reason: "malformed", detail: "a blank in or behind a name", caller: "127.0.0.1" }),
  );
});

describe("which request it is", () => {
  test("a call that says it in no single way is a 400", async () => {
    const { ask } = await stageDecision(cleanup);
    for (const [target, fields] of [
      ["/auth-request", "X-Original-Method: GET\r\n"],
      ["/auth-request", "X-Original-URI: /v2/x\r\n"],
      ["/auth-request", "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v2/x\r\n"],
      ["/auth-request", "X-Original-Method: GET\r\nX-Original-URI: /x\r\nX-Original-URI: /v2/x\r\n"],
      ["/auth-request", "X-Original-Method: GET\r\nX-Original-URI: \r\n"],
      ["/forward-auth", "X-Forwarded-Method: G E T\r\nX-Forwarded-Uri: /v2/x\r\n"],
      ["/forward-auth", "X-Forwarded-Method: GET\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v2/x\r\n"],
    ] as const) {
      const answer = await ask(target, from("192.0.2.1") + token + fields);
      expect([fields, answer.status]).toEqual([fields, 400]);
      expect(valuesOf(answer.rawHeaders, "RateLimit-Limit")).toEqual([]);
    }
  });

  test("anything but the three endpoints is 404, and nothing is counted", async () => {
    const { ask, gateway } = await stageDecision(cleanup);
    for (const target of ["/", "/v2/x", "/auth-request/x", "/ext-authz", "/__proto__", "/FORWARD-AUTH"]) {
      const answer = await ask(target, from("192.0.2.1") + token + calls.nginx.fields + calls.forwardAuth.fields);
      expect([target, answer.status]).toEqual([target, 404]);
    }
    expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="admitted"}')).toBe(0);
  });

  test("the path of an ext_authz call is believed, and no field that a client could have sent with it", async () => {
    const { ask, gateway } = await stageDecision(cleanup);
    const lies = calls.nginx.fields.replace("/v2/x", "/elsewhere") + calls.forwardAuth.fields;
    expect((await ask("/ext-authz/v2/me?a=b", from("192.0.2.1") + token + lies, "DELETE")).status).toBe(200);
    const line = gateway.logLines.find(({ source }) => source === "ext-auth");
    expect(line).toMatchObject({ path: "/v2/me", method: "DELETE", route: "/v2/" });
  });

  test.each([
    ["/V2//x", 200, "/v2/"],
    ["/%76%32/x", 200, "/v2/"],
    ["/v1/..%2fv2/x", 400, "/v1/"],
    ["/elsewhere", 404, null],
    // Only X-Original-URL has a complete URL: see original-url.test.ts.
    ["http://api.test/v1/x", 400, null],
  ])("%s is read as by the proxy: %i", async (asked, status, route) => {
    const { ask, gateway } = await stageDecision(cleanup);
    const names = `X-Original-Method: GET\r\nX-Original-URI: ${asked}\r\n`;
    const answer = await ask("/auth-request", from("192.0.2.1") + token + names);
    expect(answer.status).toBe(status);
    expectContractFields(answer, { limit: 100, remaining: route === null ? 100 : 99 });
    expect(gateway.logLines.find(({ source }) => source === "ext-auth")).toMatchObject({ route });
  });

  test("a call may have any method, with a body or without, and the next one is read after it", async () => {
    const { connect } = await stageDecision(cleanup);
    // What a client asks of its ingress, and not of whom that asks.
    const upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (const method of ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"]) {
      const connection = connect();
      const head = `${method} /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${from("192.0.2.1")}${token}`;
      for (const rest of ["\r\n", "Content-Length: 3\r\n\r\nabc", upgrade, "Expect: 100-continue\r\n\r\n"]) {
        expect([method, (await connection.ask(head + rest, { method })).status]).toEqual([method, 200]);
      }
    }
  });
});

describe("the status that is sent", () => {
  const traceCall = calls.nginx.fields.replace("GET", "TRACE");
  const rows = [
    { claim: "over the limit", fields: calls.nginx.fields + token, meant: "429", by429: 429, by403: 403 },
    { claim: "no token", fields: calls.nginx.fields, meant: "401", by429: 401, by403: 401 },
    { claim: "no route", fields: calls.nginx.fields.replace("v2", "v3"), meant: "404", by429: 404, by403: 403 },
    // Envoy and others can be told to let pass what a 5xx answers.
    { claim: "a method not to be had", fields: traceCall + token, meant: "501", by429: 403, by403: 403 },
  ];
  test.each(rows)("$claim: $by429, or $by403 with denyStatus 403", async ({ fields, meant, by429, by403 }) => {
    for (const denyStatus of [429, 403] as const) {
      const policies = [slidingPolicy({ limit: 1, windowMs: 60_000 })];
      const { ask } = await stageDecision(cleanup, { denyStatus }, { policies });
      if (meant === "429") await ask("/auth-request", from("192.0.2.1") + fields);
      const answer = await ask("/auth-request", from("192.0.2.1") + fields);
      expect(answer.status).toBe(denyStatus === 429 ? by429 : by403);
      expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual([meant]);
      expect(valuesOf(answer.rawHeaders, "Retry-After")).toHaveLength(meant === "429" ? 1 : 0);
      expect(JSON.parse(answer.body).errors).toHaveLength(1);
    }
  });
});

describe("what cannot be read", () => {
  test("a head that is too large is a decision to refuse, for an ingress that lets failures pass", async () => {
    const { connect } = await stageDecision(cleanup);
    const connection = connect();
    const padding = "x".repeat(33_000);
    connection.write(`GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${from("192.0.2.1")}X: ${padding}\r\n\r\n`);
    const answer = await connection.read();
    expect(answer.status).toBe(431);
    expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual(["431"]);
  });

  test("no field is left out of a head of too many: 431", async () => {
    const { ask } = await stageDecision(cleanup);
    const padding = "X: y\r\n".repeat(250);
    expect((await ask("/ext-authz/v2/x", padding + from("192.0.2.1") + token)).status).toBe(431);
  });

  test.each([
    ["a field without a name", "GET /ext-authz/v2/x HTTP/1.1\r\n: x\r\n\r\n", 400, "400"],
    ["no HTTP at all", "hello\r\n\r\n", 400, "400"],
    ["CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 403, "501"],
  ])("%s is refused, and the connection ends", async (_, bytes, status, meant) => {
    const { connect } = await stageDecision(cleanup);
    const connection = connect();
    const answer = await connection.ask(bytes);
    expect(answer.status).toBe(status);
    expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual([meant]);
    expect(await connection.closed).toBe("end");
  });

  test.each([
    ["broken", "Transfer-Encoding: chunked", "zz\r\n"],
    ["late", "Content-Length: 10", "zz"],
  ])("a body that is %s ends the connection, and its call is answered and counted once", async (_, field, body) => {
    const { connect, gateway } = await stageDecision(cleanup, {}, { timeouts: { headMs: 300 } });
    const connection = connect();
    const head = `POST /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${from("192.0.2.1")}${token}${field}\r\n\r\n`;
    expect((await connection.ask(head + body)).status).toBe(200);
    expect([await connection.closed, connection.rest]).toEqual(["end", ""]);
    const calls = (outcome: string) => metric(gateway, `headgate_ext_auth_checks_total{outcome="${outcome}"}`);
    expect([await calls("admitted"), await calls("malformed")]).toEqual([1, 0]);
  });

  test("a head that takes too long is 408", async () => {
    const { connect, gateway } = await stageDecision(cleanup, {}, { timeouts: { headMs: 100 } });
    expect((await connect().ask("GET /ext-authz/v2/x HTTP/1.1\r\n")).status).toBe(408);
    expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="malformed"}')).toBe(1);
  });

  test("a connection on which nothing is asked ends without a word; a caller's is kept as between two calls", async () => {
    const { connect, gateway } = await stageDecision(cleanup, {}, { timeouts: { headMs: 100 } });
    const idle = connect();
    const stranger = cleanup(new RawConnection(gateway.extAuth?.port ?? 0, { localAddress: "127.0.0.2" }));
    await within("the stranger's connection ends", stranger.closed);
    expect(stranger.receivedBytes).toBe(0);
    idle.write(`GET /auth-request HTTP/1.1\r\nHost: headgate\r\n${from("192.0.2.1") + token + calls.nginx.fields}\r\n`);
    expect((await idle.read()).status).toBe(200);
  });

  test("a call that has arrived when the time of its connection is over is answered", async () => {
    holdIntervals(cleanup);
    const { connect } = await stageDecision(cleanup, {}, { timeouts: { keepAliveMs: 1 } });
    const client = connect();
    const call = `GET /auth-request HTTP/1.1\r\nHost: headgate\r\n${from("192.0.2.1") + token + calls.nginx.fields}\r\n`;
    expect((await client.ask(call)).status).toBe(200);
    await beforeReads(() => {
      client.write(call);
      vi.advanceTimersByTime(3_000);
    });
    expect((await client.read()).status).toBe(200);
  });
});

test("no call shows up among the requests of the traffic port, and all among the decisions", async () => {
  const { ask, gateway } = await stageDecision(cleanup);
  await ask("/auth-request", from("192.0.2.1") + token + calls.nginx.fields);
  await ask("/auth-request", from("192.0.2.1") + calls.nginx.fields);
  const figures = {
    'headgate_ext_auth_checks_total{outcome="admitted"}': 1,
    'headgate_ext_auth_checks_total{outcome="denied"}': 1,
    'headgate_decisions_total{policy="per-ip",outcome="admitted"}': 2,
    'headgate_auth_total{outcome="missing"}': 1,
    'headgate_refusals_total{reason="no_token"}': 1,
    headgate_overhead_seconds_count: 2,
    'headgate_request_duration_seconds_count{route="/v2/"}': 0,
  };
  for (const [series, value] of Object.entries(figures))
    expect([series, await metric(gateway, series)]).toEqual([series, value]);
  await eventually(
    "both are logged",
    () => gateway.logLines.filter(({ source }) => source === "ext-auth").length === 2,
  );
});

test("off unless it is configured", async () => {
  const { gateway } = await stageDecision(cleanup, { http: null });
  expect(gateway.extAuth).toBeNull();
  expect(gateway.logLines.filter(({ msg }) => msg === "listening")).toHaveLength(2);
});

describe("pipelined calls", () => {
  const call = `GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${from("192.0.2.1")}${token}\r\n`;

  test("99 in one read are answered, and the connection is kept", async () => {
    const { connect } = await stageDecision(cleanup);
    const connection = connect().write(call.repeat(99));
    for (let read = 0; read < 99; read += 1) expect((await connection.read()).status).toBe(200);
    expect((await connection.ask(call)).status).toBe(200);
  });

  test("beyond 100 in one read none is decided, and the connection closes", async () => {
    const { connect, ask } = await stageDecision(cleanup, {}, { policies: [roomy] });
    const connection = connect().write(call.repeat(120));
    const statuses: number[] = [];
    for (let read = 0; read < 100; read += 1) {
      const { status, rawHeaders } = await connection.read();
      statuses.push(status);
      expect(valuesOf(rawHeaders, "Connection")).toEqual([read < 99 ? "keep-alive" : "close"]);
    }
    expect(statuses).toEqual(Array(100).fill(200));
    await eventually("the connection closes", () => connection.ending !== null);
    const next = await ask("/ext-authz/v2/x", from("192.0.2.1") + token);
    expectContractFields(next, { limit: 1_000, remaining: 899 });
  });
});

const roomy = slidingPolicy({ limit: 1_000, windowMs: 60_000 });
