// Envoy's questions to the whole gateway, in the bytes of another implementation: the proxy's decisions, counters and answers.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { digestOf } from "../../auth/digest.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { listen } from "../../support/loopback-server.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { seededRandom } from "../../support/random.ts";
import { scaled } from "../../support/runs.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { holdTimers } from "../../support/timers.ts";
import { call, callRaw, frame, openSession } from "./client.ts";
import { mutated } from "./mutated.ts";
import { check, healthCheck, healthWatch, type Method, shouldRateLimit } from "./protocol.ts";
import { checkRequest, fullCheckRequest, rateLimitRequest } from "./requests.ts";
import { type GrpcStage, stageGrpc } from "./stage.ts";

const cleanup = useCleanup();

interface CheckResponse {
  readonly status: { readonly code: number };
  readonly http_response: "denied_response" | "ok_response";
  readonly denied_response: { status: { code: number }; headers: Option[]; body: string } | null;
  readonly ok_response: { response_headers_to_add: Option[]; headers: Option[]; headers_to_remove: string[] } | null;
}

interface Option {
  readonly header: { readonly key: string; readonly value: string };
  readonly append_action: string;
}

interface RateLimitResponse {
  readonly overall_code: string;
  readonly statuses: { code: string; current_limit: object; limit_remaining: number; duration_until_reset: object }[];
  readonly response_headers_to_add: { readonly key: string; readonly value: string }[];
  readonly raw_body: Buffer;
}

const tooMany = '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}';

async function ask<T>(stage: GrpcStage, method: Method, request: object): Promise<T> {
  const reply = await call<T>(stage.client, method, request);
  expect(reply).toMatchObject({ status: "OK", details: "" });
  return reply.message as T;
}

const fieldsOf = (options: readonly Option[] | undefined): Record<string, string> =>
  Object.fromEntries((options ?? []).map(({ header: { key, value } }) => [key, value]));

describe("external authorization", () => {
  const checks = (stage: GrpcStage, request = checkRequest()): Promise<CheckResponse> => ask(stage, check, request);

  test("what a client names in Connection is read all the same", async () => {
    const clientAddress = { trustedProxies: ["192.0.2.0/24"], header: "x-forwarded-for" } as const;
    const stage = await stageGrpc(cleanup, { clientAddress });
    const headers = { ":authority": "api.test", authorization: "Bearer abc", "x-forwarded-for": "203.0.113.1" };
    const named = { ...headers, connection: "x-forwarded-for, authorization, host, x-request-id" };
    expect((await checks(stage, checkRequest({ headers: named }))).http_response).toBe("ok_response");
    expect(stage.gateway.logLines.find(({ source }) => source === "ext-auth")?.["client"]).toBe("203.0.113.1");
  });

  test("an admission adds all fields and changes nothing else, and a refusal has the code of gRPC beside its fields", async () => {
    const stage = await stageGrpc(cleanup, { policies: [slidingPolicy({ limit: 1, windowMs: 60_000 })] });
    const quota = { "ratelimit-limit": "1", "x-ratelimit-limit": "1" };
    const { status, http_response, ok_response: admitted } = await checks(stage);
    expect([status.code, http_response, admitted?.headers, admitted?.headers_to_remove]).toEqual([
      ...[0, "ok_response", [], []],
    ]);
    const actions = admitted?.response_headers_to_add.map(({ append_action }) => append_action);
    expect(new Set(actions)).toEqual(new Set(["OVERWRITE_IF_EXISTS_OR_ADD"]));
    expect(fieldsOf(admitted?.response_headers_to_add)).toEqual({ ...stage.fields(0), ...quota });
    const refused = await checks(stage);
    expect(refused.status.code).toBe(8);
    expect(fieldsOf(refused.denied_response?.headers)).toEqual({
      ...{ ...stage.fields(0), ...quota, "x-headgate-status": "429", "retry-after": "60" },
      ...{ "cache-control": "no-store", "content-type": "application/json; charset=utf-8" },
    });
  });

  test("1,000 headers are read; with more the request is refused with 431, which is no failed call", async () => {
    const stage = await stageGrpc(cleanup);
    const headers = (count: number) => ({
      ...Object.fromEntries(Array.from({ length: count - 1 }, (_, i) => [`x-${i}`, "1"])),
      authorization: "Bearer a",
    });
    expect(await checks(stage, checkRequest({ headers: headers(1_000) }))).toMatchObject({
      http_response: "ok_response",
    });
    const malformed = () => metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="malformed"}');
    expect(await malformed()).toBe(0);
    const { status, denied_response } = await checks(stage, checkRequest({ headers: headers(1_001) }));
    expect([status.code, denied_response?.status.code]).toEqual([7, 431]);
    expect(await malformed()).toBe(1);
  });

  test("Envoy's questions, the rate limit service's and the proxy's requests share one quota", async () => {
    const stage = await stageGrpc(cleanup);
    await checks(stage, checkRequest({}, "127.0.0.1"));
    await ask(stage, shouldRateLimit, rateLimitRequest({ remote_address: "127.0.0.1" }));
    const response = await fetch(`${stage.gateway.url}/v2/me`, { headers: { authorization: "Bearer abc" } });
    expect(response.headers.get("ratelimit-remaining")).toBe("97");
  });

  test.for<[string, object, number, number, string]>([
    ["no token", { headers: {} }, 401, 16, "Access token does not exist."],
    ["a path under no route", { path: "/admin" }, 404, 7, "There is nothing at this path."],
    ["a path that is two", { path: "/v1/..%2fv2/x" }, 400, 7, "The path can be read in more than one way."],
    ["no host", { host: "" }, 400, 7, "Exactly one valid Host header is required."],
    [
      "another host in the fields",
      { headers: { host: "b", authorization: "Bearer a" } },
      400,
      7,
      "Exactly one valid Host",
    ],
    [
      "a body that is too large",
      { headers: { authorization: "Bearer a", "content-length": "99999999" } },
      413,
      7,
      "larger",
    ],
    ["a method that is refused", { method: "TRACE" }, 403, 7, "not supported"],
  ])("%s", async ([, http, httpStatus, code, errMsg]) => {
    const stage = await stageGrpc(cleanup);
    const { status, denied_response } = await checks(stage, checkRequest(http));
    expect(status.code).toBe(code);
    expect(denied_response?.status.code).toBe(httpStatus);
    expect(denied_response?.body).toContain(errMsg);
    expect(fieldsOf(denied_response?.headers)).toMatchObject(stage.fields(httpStatus === 404 ? 100 : 99));
  });

  test("what Envoy says by its documentation, and raw fields, are read", async () => {
    const stage = await stageGrpc(cleanup);
    expect(await checks(stage, fullCheckRequest)).toMatchObject({ http_response: "ok_response" });
    const headers = [
      { key: ":path", raw_value: Buffer.from("/v2/me") },
      { key: "authorization", raw_value: Buffer.from("Bearer abc") },
    ];
    const raw = checkRequest({ headers: {}, header_map: { headers } });
    const { ok_response } = await checks(stage, raw);
    expect(fieldsOf(ok_response?.response_headers_to_add)).toMatchObject(stage.fields(98));
  });

  test("the peer is charged, and X-Forwarded-For is read where the peer is a trusted proxy", async () => {
    const stage = await stageGrpc(cleanup, {
      clientAddress: { trustedProxies: ["10.0.0.0/8"], header: "x-forwarded-for", ipv6Prefix: 64 },
    });
    const from = async (address: string, forwarded: string): Promise<string | undefined> => {
      const headers = { authorization: "Bearer a", "x-forwarded-for": forwarded };
      const { ok_response } = await checks(stage, checkRequest({ headers }, address));
      return fieldsOf(ok_response?.response_headers_to_add)["ratelimit-remaining"];
    };
    expect(await from("192.0.2.7", "198.51.100.1")).toBe("99");
    expect(await from("10.0.0.1", "198.51.100.1, 192.0.2.7, 10.0.0.2")).toBe("98");
    expect(await from("::ffff:192.0.2.7", "198.51.100.2")).toBe("97");
    expect(await from("2001:db8::1", "")).toBe("99");
    expect(await from("2001:db8::2", "")).toBe("98");
  });

  test.for(["", "api.test", "/run/envoy.sock"])(
    "a peer that is no address (%j) is refused in words",
    async (address) => {
      const stage = await stageGrpc(cleanup);
      const reply = await call(stage.client, check, checkRequest({}, address));
      expect(reply).toMatchObject({ status: "INVALID_ARGUMENT", details: "the client's address is no IP address" });
    },
  );
});

test("denyStatus 403 stands for every refusal but 401, and the status that was meant is beside it", async () => {
  const stage = await stageGrpc(cleanup, {
    extAuth: { denyStatus: 403 },
    policies: [slidingPolicy({ name: "one", limit: 1, windowMs: 60_000 })],
  });
  const denied = async (http: object): Promise<unknown[]> => {
    const { denied_response } = await ask<CheckResponse>(stage, check, checkRequest(http));
    return [denied_response?.status.code, fieldsOf(denied_response?.headers)["x-headgate-status"]];
  };
  expect(await denied({ headers: {} })).toEqual([401, "401"]);
  expect(await denied({})).toEqual([403, "429"]);
});

describe("the rate limit service", () => {
  const asks = (stage: GrpcStage, request = rateLimitRequest()): Promise<RateLimitResponse> =>
    ask(stage, shouldRateLimit, request);
  const added = (response: RateLimitResponse): Record<string, string> =>
    Object.fromEntries(response.response_headers_to_add.map(({ key, value }) => [key, value]));

  test("100 are OK with all fields, and the 101st is OVER_LIMIT with the gateway's body", async () => {
    const stage = await stageGrpc(cleanup);
    for (let i = 0; i < 100; i += 1) {
      const response = await asks(stage);
      expect(response.overall_code).toBe("OK");
      expect(response.raw_body.length).toBe(0);
      const { date: _, "x-request-id": __, ...fields } = stage.fields(99 - i);
      expect(added(response)).toEqual(fields);
    }
    stage.clock.advance(59_500);
    const response = await asks(stage);
    expect(response).toMatchObject({
      overall_code: "OVER_LIMIT",
      statuses: [
        {
          code: "OVER_LIMIT",
          current_limit: { requests_per_unit: 100, unit: "MINUTE", name: "per-ip" },
          limit_remaining: 0,
          duration_until_reset: { seconds: 0, nanos: 500_000_000 },
        },
      ],
    });
    expect(String(response.raw_body)).toBe(tooMany);
    expect(added(response)).toMatchObject({ "retry-after": "1", "content-type": "application/json; charset=utf-8" });
    expect(Object.keys(added(response))).not.toContain("date");
    expect(Object.keys(added(response))).not.toContain("content-length");
    expect((await asks(stage, rateLimitRequest({ remote_address: "192.0.2.8" }))).overall_code).toBe("OK");
  });

  test("a path under no route shows the quota and spends nothing, and one without a token is the caller's to refuse", async () => {
    const stage = await stageGrpc(cleanup);
    expect((await asks(stage, rateLimitRequest({ path: "/admin" }))).statuses[0]?.limit_remaining).toBe(100);
    expect(
      (await asks(stage, rateLimitRequest({ path: "/V2//me?x", method: "POST" }))).statuses[0]?.limit_remaining,
    ).toBe(99);
  });

  const entries = [
    { key: "remote_address", value: "192.0.2.7" },
    { key: "path", value: "/v2/me" },
  ];
  test.for<[string, object, string, string]>([
    ["another domain", rateLimitRequest({}, { domain: "edge" }), "INVALID_ARGUMENT", 'the domain has to be "headgate"'],
    ["no descriptor", rateLimitRequest({}, { descriptors: [] }), "INVALID_ARGUMENT", "1 to 32 descriptors"],
    [
      "an unknown entry",
      rateLimitRequest({ generic_key: "slow" }),
      "INVALID_ARGUMENT",
      'an entry "generic_key" is unknown',
    ],
    [
      "an entry twice",
      rateLimitRequest({}, { descriptors: [{ entries: [...entries, ...entries] }] }),
      "INVALID_ARGUMENT",
      "twice",
    ],
    [
      "no address",
      rateLimitRequest({}, { descriptors: [{ entries: entries.slice(1) }] }),
      "INVALID_ARGUMENT",
      "missing",
    ],
    [
      "no path",
      rateLimitRequest({}, { descriptors: [{ entries: entries.slice(0, 1) }] }),
      "INVALID_ARGUMENT",
      "missing",
    ],
    ["an address that is none", rateLimitRequest({ remote_address: "me" }), "INVALID_ARGUMENT", "no IP address"],
    [
      "no hit",
      rateLimitRequest({}, { descriptors: [{ entries, hits_addend: { value: 0 } }] }),
      "UNIMPLEMENTED",
      "one hit",
    ],
    [
      "its own limit",
      rateLimitRequest({}, { descriptors: [{ entries, limit: { unit: 1 } }] }),
      "UNIMPLEMENTED",
      "its own limit",
    ],
  ])("%s is refused in words, and charges nothing", async ([, request, status, details]) => {
    const stage = await stageGrpc(cleanup);
    const reply = await call(stage.client, shouldRateLimit, request);
    expect(reply).toMatchObject({ status, details: expect.stringContaining(details) });
    const once = rateLimitRequest({}, { hits_addend: 1 });
    expect((await asks(stage, once)).statuses[0]?.limit_remaining).toBe(99);
  });
});

describe("who may ask", () => {
  const untrusted = { trustedCallers: ["192.0.2.0/24"] };

  test.for([check, shouldRateLimit])("a caller from elsewhere is refused, and charges nobody", async (method) => {
    const stage = await stageGrpc(cleanup, { extAuth: untrusted });
    const request =
      method === check ? checkRequest({}, "127.0.0.1") : rateLimitRequest({ remote_address: "127.0.0.1" });
    expect(await call(stage.client, method, request)).toMatchObject({
      status: "PERMISSION_DENIED",
      details: "this caller may not ask here",
    });
    const response = await fetch(`${stage.gateway.url}/v2/me`, { headers: { authorization: "Bearer abc" } });
    expect(response.headers.get("ratelimit-remaining")).toBe("99");
  });

  test("a caller with a secret of the file may ask, one with another or with two may not, and both are told of", async () => {
    const folder = scratchFolder(cleanup);
    const secretsFile = join(folder, "secrets.txt");
    writeFileSync(secretsFile, `${digestOf("a-secret")}\n`);
    const stage = await stageGrpc(cleanup, { extAuth: { ...untrusted, secretsFile } });
    const asWith = async (secret: string): Promise<string> => {
      const metadata = { "x-headgate-secret": secret };
      return (await call(stage.client, check, checkRequest(), { metadata })).status;
    };
    expect([await asWith("a-secret"), await asWith("another"), await asWith("a-secret")]).toEqual([
      "OK",
      "PERMISSION_DENIED",
      "OK",
    ]);
    const session = await openSession(cleanup, stage.port);
    const twice = session.request({
      ":method": "POST",
      ":path": check.path,
      "content-type": "application/grpc",
      "x-headgate-secret": ["a-secret", "a-secret"],
    });
    const [head] = await once(twice, "response");
    expect(head["grpc-status"]).toBe("7");
    expect(await metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="admitted"}')).toBe(2);
    expect(await metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="untrusted"}')).toBe(2);
    expect(stage.gateway.logLines).toContainEqual(
      expect.objectContaining({ reason: "untrusted", caller: "127.0.0.1", detail: "this caller may not ask here" }),
    );
  });

  test("strangers that hold all 128 connections open do not keep the health check of another from its answer", async () => {
    const stage = await stageGrpc(cleanup, { extAuth: untrusted });
    const closed: number[] = [];
    for (let i = 0; i < 128; i += 1) {
      // One gets half of them; each of the others has one.
      const localAddress = i < 64 ? "127.0.0.2" : `127.0.1.${i}`;
      const stranger = cleanup(connect({ port: stage.port, host: "127.0.0.1", localAddress }));
      stranger
        .on("error", () => {})
        .on("close", () => closed.push(i))
        .resume();
      await once(stranger, "connect");
    }
    const overloaded = () => metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}');
    expect([closed, await overloaded()]).toEqual([[], 0]);
    expect(await call(stage.client, healthCheck, {})).toMatchObject({ status: "OK" });
    await eventually("the one that was idle longest is closed", () => closed.length > 0);
    expect([closed, await overloaded()]).toEqual([[0], 1]);
  });

  test("a stranger has 16 calls at once on a connection, and a caller has 100", async () => {
    for (const [extAuth, expected] of [
      [untrusted, 16],
      [{}, 100],
    ] as const) {
      const stage = await stageGrpc(cleanup, { extAuth });
      const session = await openSession(cleanup, stage.port);
      const refused: unknown[] = [];
      const open = (): void => {
        const late = callRaw(session, healthCheck.path, [frame(Buffer.alloc(0), 0, 9)], { ends: false });
        void late.then(({ grpcStatus }) => refused.push(grpcStatus));
      };
      for (let i = 0; i < expected; i += 1) open();
      await new Promise((resolve) => session.ping(resolve));
      expect(refused).toEqual([]);
      if (expected === 100) continue;
      open();
      await eventually("one more is refused", () => refused.length > 0);
      expect(refused).toEqual(["8"]);
    }
  });

  test("the health check is for everybody", async () => {
    const stage = await stageGrpc(cleanup, { extAuth: untrusted });
    for (const service of ["", "envoy.service.auth.v3.Authorization", "envoy.service.ratelimit.v3.RateLimitService"]) {
      const reply = await call(stage.client, healthCheck, { service });
      expect(reply).toMatchObject({ status: "OK", message: { status: "SERVING" } });
    }
    expect(await call(stage.client, healthCheck, { service: "other" })).toMatchObject({ status: "NOT_FOUND" });
  });

  test("a health call that fails counts as no check", async () => {
    const stage = await stageGrpc(cleanup, { extAuth: untrusted });
    const session = await openSession(cleanup, stage.port);
    const fails = async (path: string, message: Buffer, grpcStatus: string): Promise<void> => {
      expect(await within(path, callRaw(session, path, [message]))).toMatchObject({ grpcStatus });
    };
    await fails(healthCheck.path, frame(Buffer.from([0x0a])), "3");
    await fails(healthCheck.path, frame(Buffer.alloc(0), 0, 1_000_000), "8");
    await fails(healthWatch.path, frame(Buffer.alloc(0)), "7");
    await fails("/grpc.health.v1.Health/List", frame(Buffer.alloc(0)), "12");
    const refused = async (outcome: string) =>
      await metric(stage.gateway, `headgate_ext_auth_checks_total{outcome="${outcome}"}`);
    expect([await refused("malformed"), await refused("untrusted")]).toEqual([0, 0]);
    expect(stage.gateway.logLines).not.toContainEqual(expect.objectContaining({ caller: "127.0.0.1" }));
    await fails(check.path, frame(Buffer.from([0x0a])), "7");
    expect(await refused("untrusted")).toBe(1);
  });
});

test("a port that is taken is told with its listener", async () => {
  const taken = cleanup(createServer());
  const port = await listen(taken);
  const grpc = { host: "127.0.0.1", port, maxConnections: 1 };
  await expect(stageGrpc(cleanup, { extAuth: { grpc } })).rejects.toMatchObject({
    listener: "grpc",
    address: { port },
    cause: { code: "EADDRINUSE" },
  });
});

test("questions are counted and logged like requests, without the query", async () => {
  const stage = await stageGrpc(cleanup);
  await ask(stage, check, checkRequest({ path: "/v2/me?secret" }));
  await ask(stage, check, checkRequest({ headers: {} }));
  const lines = stage.gateway.logLines.filter(({ msg }) => msg === "request");
  expect(lines).toMatchObject([
    { status: 200, route: "/v2/", path: "/v2/me", client: "192.0.2.7", decision: "admitted", problem: null },
    { status: 401, client: "192.0.2.7", decision: "admitted", problem: "no_token" },
  ]);
});

test("on the way out health says so first, watchers are told, and calls are answered until the delay is over", async () => {
  holdTimers(cleanup);
  const drain = { delayMs: 3_000, timeoutMs: 2_000 };
  const stage = await stageGrpc(cleanup, { drain });
  const told: string[] = [];
  const watch = stage.client.makeServerStreamRequest(
    healthWatch.path,
    healthWatch.requestSerialize,
    healthWatch.responseDeserialize,
    {},
  );
  watch.on("data", (message: { status: string }) => told.push(message.status));
  const ended = new Promise<string>((resolve) => watch.on("error", (error) => resolve(error.message)));
  await eventually("the first word comes", () => told.length === 1);
  const closed = stage.gateway.close();
  await eventually("the watcher is told", () => told.length === 2);
  expect(told).toEqual(["SERVING", "NOT_SERVING"]);
  expect(await call(stage.client, healthCheck, {})).toMatchObject({ message: { status: "NOT_SERVING" } });
  expect(await ask(stage, check, checkRequest())).toMatchObject({ http_response: "ok_response" });
  vi.advanceTimersByTime(drain.delayMs);
  expect(await within("the end", ended)).toContain("UNAVAILABLE");
  await within("the end of the gateway", closed);
  expect(await call(stage.client, healthCheck, {})).toMatchObject({ status: "UNAVAILABLE" });
});

test("mutated calls are each answered by a status, and the server is well after them", async () => {
  const stage = await stageGrpc(cleanup);
  const session = await openSession(cleanup, stage.port);
  const seeds: [Method, Buffer][] = [
    [check, check.requestSerialize(fullCheckRequest)],
    [shouldRateLimit, shouldRateLimit.requestSerialize(rateLimitRequest())],
  ];
  const random = seededRandom(7);
  const mutations = scaled(1_000, 4);
  const statuses = new Map<string, number>();
  for (const [{ path }, seed] of seeds) {
    const pending: Promise<unknown>[] = [];
    for (const bytes of mutated([seed], mutations)) {
      // The frame is right most of the time, or little would get to the message.
      const piece = random() < 0.8 ? frame(bytes) : Buffer.concat([bytes, bytes]).subarray(0, 64);
      const count = ({ grpcStatus = "none" }): void =>
        void statuses.set(grpcStatus, (statuses.get(grpcStatus) ?? 0) + 1);
      pending.push(callRaw(session, path, [piece]).then(count));
      if (pending.length >= 50) await Promise.all(pending.splice(0));
    }
    await Promise.all(pending);
  }
  const known = ["0", "3", "8", "12"];
  expect([...statuses.keys()].filter((status) => !known.includes(status))).toEqual([]);
  expect(statuses.get("0")).toBeGreaterThan(mutations / 10);
  expect(statuses.get("3")).toBeGreaterThan(mutations / 10);
  expect(await call(stage.client, healthCheck, {})).toMatchObject({ message: { status: "SERVING" } });
  expect(stage.gateway.logLines.filter(({ msg }) => msg === "internal error")).toEqual([]);
});
