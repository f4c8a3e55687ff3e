// The calls of the admin API over real sockets, with a control plane of the test: who may call what, and what is answered.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { guessRate } from "../../src/admin/access.ts";
import { maxAdminConnections, maxApiConnections } from "../../src/admin/connections.ts";
import type { ControlPlane } from "../../src/admin/control-plane.ts";
import { maxStreams } from "../../src/admin/event-streams.ts";
import { maxAtOnce } from "../../src/admin/turns.ts";
import { Authority, certificateOf } from "../support/certificates.ts";
import { cleanupOf, useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { hiddenTexts } from "../support/hidden-characters.ts";
import { scratchFolder } from "../support/scratch.ts";
import { type ApiStage, type Call, type call, readToken, stageApi, writeToken } from "./api-stage.ts";
import { clients, fakePlane, policies, requestAnswer, ruleBook, status } from "./fake-plane.ts";

const cleanup = useCleanup();

/** Of calls that change nothing: the rows of a table have one, because the first call of each stage compiles all schemas. */
let shared: ApiStage & {
  readonly plane: ReturnType<typeof fakePlane>;
  readonly book: Awaited<ReturnType<typeof ruleBook>>["book"];
};
const sharedCleanup = useSharedCleanup();
beforeAll(async () => {
  const { book, plane } = await planeWithRules();
  const stage = await stageApi(sharedCleanup, plane);
  shared = Object.assign(stage, { plane, book });
});

async function planeWithRules(changes: Partial<ControlPlane> = {}) {
  const { book, rules } = await ruleBook(testSettings("http://127.0.0.1:9"));
  return { book, plane: fakePlane({ rules, ...changes }) };
}

const block = { client: "203.0.113.0/24", action: "block", for: "1h" };

/** Every call, with what it needs. */
const calls: readonly [method: string, path: string, status: number, call?: Call][] = [
  ["GET", "/api/openapi.json", 200],
  ["GET", "/api/status", 200],
  ["GET", "/api/history?steps=180", 200],
  ["GET", "/api/policies", 200],
  ["GET", "/api/policies/history", 200],
  ["GET", "/api/clients?policy=per-client&sort=refused&search=203&limit=10", 200],
  ["GET", "/api/clients/client:203.0.113.7", 200],
  ["GET", "/api/requests/abc", 200],
  ["GET", "/api/refusals?key=client%3A203.0.113.7&limit=200", 200],
  ["GET", "/api/config?against=previous", 200],
  ["GET", "/api/rules", 200],
  ["POST", "/api/check", 200, { body: { method: "GET", target: "/v2/me", client: "203.0.113.7" } }],
  ["PUT", "/api/rules/attack", 201, { body: block }],
  ["GET", "/api/rules/attack", 200],
  ["DELETE", "/api/rules/attack", 200],
  ["DELETE", "/api/clients/client%3A203.0.113.7", 200],
  ["POST", "/api/reload", 200, { body: {} }],
  ["POST", "/api/reload", 200, { body: { confirmWithin: "5m", unconfirmed: "keep" } }],
  ["POST", "/api/reload/confirm", 200, { body: {} }],
  ["POST", "/api/reload/take-back", 200, { body: {} }],
  ["POST", "/api/drain", 202, { body: {} }],
];

const isWrite = ([method, path]: (typeof calls)[number]) => method !== "GET" && path !== "/api/check";

function expectError(answer: Awaited<ReturnType<typeof call>>, status: number): void {
  expect([answer.status, answer.text]).toEqual([status, expect.anything()]);
  expect(answer.json).toEqual({ message: expect.any(String), errors: [{ errMsg: expect.any(String) }] });
  expect(answer.headers["cache-control"]).toBe("no-store");
  expect(answer.headers["content-type"]).toBe("application/json; charset=utf-8");
}

test("every call is answered with a token that may write, uncached, and each write is one audit line", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  for (const [method, path, status, options] of calls) {
    const answer = await stage.call(method, path, options);
    expect([method, path, answer.status]).toEqual([method, path, status]);
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.headers["x-request-id"]).toMatch(/^id-\d+$/);
  }
  const writes = calls.filter(isWrite);
  expect(stage.audit.map(({ call }) => call)).toEqual(writes.map(([method, path]) => `${method} ${path}`));
  expect(new Set(stage.audit.map(({ caller, peer }) => `${caller} ${peer}`))).toEqual(new Set(["ops 127.0.0.1"]));
  expect(stage.audit[0]).toMatchObject({
    status: 201,
    before: null,
    after: { client: "203.0.113.0/24", setBy: "ops" },
  });
  expect(stage.audit[1]).toMatchObject({ status: 200, before: { id: "attack" }, after: null });
  expect(stage.failures).toEqual([]);
});

test.each(hiddenTexts)("%s in a note is refused, and not in the audit line", async (_, note) => {
  const { plane, audit, call } = shared;
  const answer = await call("PUT", "/api/rules/hidden", { body: { ...block, note } });
  expectError(answer, 400);
  expect(answer.text).toContain(
    "body.note: at most 500 characters are expected, and no control, bidi or other invisible",
  );
  expect(audit.at(-1)).toMatchObject({ status: 400, after: { ...block, note: note.replaceAll(/[^ab[2J]/gu, "") } });
  expect(plane.rules?.find("hidden")).toBeNull();
});

test("a token that may read gets 403 for each write, and all the rest", async () => {
  const { book, plane } = await planeWithRules();
  const stage = await stageApi(cleanup, plane);
  for (const each of calls.filter(([, path]) => path !== "/api/rules/attack")) {
    const [method, path, status, options] = each;
    const answer = await stage.call(method, path, { ...options, token: readToken });
    if (isWrite(each)) expectError(answer, 403);
    else expect([method, path, answer.status]).toEqual([method, path, status]);
  }
  expectError(await stage.call("PUT", "/api/rules/attack", { body: block, token: readToken }), 403);
  expectError(await stage.call("DELETE", "/api/rules/attack", { token: readToken }), 403);
  expect([book.list(), stage.audit, plane.drains()]).toEqual([[], [], 0]);
});

test("without a token every call is 401, also one that does not exist", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  for (const [method, path, , options] of [
    ...calls,
    ["GET", "/api", 404],
    ["GET", "/api/nothing", 404],
  ] as typeof calls) {
    const answer = await stage.call(method, path, { ...options, token: null });
    expectError(answer, 401);
    expect(answer.headers["www-authenticate"]).toBe('Bearer realm="headgate admin"');
  }
});

test("a wrong token is 401, and says so", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  for (const authorization of ["Bearer wrong", "Bearer wrong wrong", `Bearer ${writeToken}x`]) {
    const answer = await stage.call("GET", "/api/status", { token: null, headers: { authorization } });
    expectError(answer, 401);
    expect(answer.headers["www-authenticate"]).toContain('error="invalid_token"');
  }
  expectError(await stage.call("GET", "/api/status", { token: null, headers: { authorization: "Basic eDp5" } }), 401);
});

test("a peer has a bounded number of wrong tokens, then 429 even for the right one; other peers are not affected", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const guess = () => stage.call("GET", "/api/status", { token: "guess", localAddress: "127.0.0.2" });
  for (let i = 0; i < guessRate.burst; i += 1) expectError(await guess(), 401);
  const refused = await guess();
  expectError(refused, 429);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThanOrEqual(1);
  expectError(await stage.call("GET", "/api/status", { localAddress: "127.0.0.2" }), 429);
  expect((await stage.call("GET", "/api/status", { localAddress: "127.0.0.3" })).status).toBe(200);
  expect((await stage.call("GET", "/livez", { localAddress: "127.0.0.2" })).status).toBe(200);
});

test("without a tokens file the API does not exist over TCP; a reload that names one makes it appear", async () => {
  const stage = await stageApi(cleanup, fakePlane(), { access: { tokens: null } });
  for (const path of ["/api", "/api/status", "/api/openapi.json"]) expectError(await stage.call("GET", path), 404);
  expectError(await stage.call("POST", "/api/reload", { body: {} }), 404);
  const { listedTokens } = await import("./api-stage.ts");
  await stage.openApi();
  stage.access = { ...stage.access, tokens: { value: listedTokens } };
  expect((await stage.call("GET", "/api/status")).json).toEqual({ ...status, caller: { name: "ops", role: "write" } });
  const read = { ...status, caller: { name: "dashboard", role: "read" } };
  expect((await stage.call("GET", "/api/status", { token: readToken })).json).toEqual(read);
});

test.each([
  ["evil.example", 421],
  ["evil.example:PORT", 421],
  ["127.0.0.1.evil.example:PORT", 421],
  ["localhost.evil.example", 421],
  ["localhost:1", 200],
  ["LOCALHOST", 200],
  // The whole name, which no search domain can change (RFC 6761, 6.3).
  ["localhost.:PORT", 200],
  ["localhost..", 421],
  ["evil.example.", 421],
  // An address to browsers, too.
  ["127.0.0.1.", 200],
  ["[::1]:PORT", 200],
  ["127.0.0.1:PORT", 200],
  ["127.0.0.2:PORT", 421],
  ["10.0.0.1", 421],
  ["localhost@evil", 421],
  ["", 421],
])("Host: %s is %i on the API, and answered by probes and scrapes", async (written, expected) => {
  const stage = shared;
  const host = written.replace("PORT", `${stage.port}`);
  const answer = await stage.call("GET", "/api/status", { headers: { host } });
  if (expected === 200) expect(answer.status).toBe(200);
  else expectError(answer, expected);
  for (const path of ["/livez", "/readyz", "/metrics"]) {
    expect((await stage.call("GET", path, { headers: { host } })).status).toBe(200);
  }
});

test("admin.hosts replaces the default, with or without a port", async () => {
  const hosts = ["admin.internal", "127.0.0.1:1234", "[2001:db8::1]", "dotted.internal."];
  const stage = await stageApi(cleanup, fakePlane(), { access: { hosts } });
  const statusOf = async (host: string) => (await stage.call("GET", "/api/status", { headers: { host } })).status;
  expect(await statusOf("admin.internal")).toBe(200);
  expect(await statusOf("ADMIN.internal:9")).toBe(200);
  expect(await statusOf("admin.internal.:9")).toBe(200);
  expect(await statusOf("dotted.internal")).toBe(200);
  expect(await statusOf("dotted.internal.")).toBe(200);
  expect(await statusOf("127.0.0.1:1234")).toBe(200);
  expect(await statusOf("[2001:DB8:0::1]:5")).toBe(200);
  expect(await statusOf("127.0.0.1")).toBe(421);
  expect(await statusOf("localhost")).toBe(421);
});

test.each([
  ["http://HOST", 200],
  ["https://HOST", 200],
  ["http://evil.example", 403],
  ["http://localhost", 403],
  ["null", 403],
  ["", 403],
])("Origin: %s is %i, for reads and writes", async (written, expected) => {
  const stage = shared;
  const headers = { origin: written.replace("HOST", `127.0.0.1:${stage.port}`) };
  for (const answer of [
    await stage.call("GET", "/api/status", { headers }),
    await stage.call("POST", "/api/reload", { headers, body: {} }),
  ]) {
    if (expected === 200) expect(answer.status).toBe(200);
    else expectError(answer, expected);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  }
});

test.each([
  ["same-origin", 200],
  ["none", 200],
  ["same-site", 403],
  ["cross-site", 403],
  ["", 403],
])("Sec-Fetch-Site: %s is %i, also without an Origin", async (site, expected) => {
  const stage = shared;
  const answer = await stage.call("GET", "/api/status", { headers: { "sec-fetch-site": site } });
  if (expected === 200) expect(answer.status).toBe(200);
  else expectError(answer, expected);
});

test.each([
  "application/x-www-form-urlencoded",
  "text/plain",
  "multipart/form-data; boundary=x",
  "application/jsonx",
  undefined,
])("a write with Content-Type: %s is 415 and changes nothing", async (type) => {
  const { book, plane, audit } = shared;
  const before = [book.list(), plane.drains(), [...audit]];
  const options = { body: JSON.stringify(block), headers: type === undefined ? {} : { "content-type": type } };
  for (const [method, path] of [
    ["PUT", "/api/rules/a"],
    ["POST", "/api/reload"],
    ["POST", "/api/drain"],
  ] as const) {
    expectError(await shared.call(method, path, options), 415);
  }
  expect([book.list(), plane.drains(), audit]).toEqual(before);
});

test("a preflight is not answered for anybody", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const headers = { origin: "http://evil.example", "access-control-request-method": "PUT" };
  const answer = await stage.call("OPTIONS", "/api/rules/a", { token: null, headers });
  expectError(answer, 403);
  expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
});

test("a body may have 64 KiB, and a longer one is not waited for", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  const fits = { ...block, note: "x".repeat(256) };
  const padded = `${JSON.stringify(fits)}${" ".repeat(65_536 - JSON.stringify(fits).length)}`;
  const headers = { "content-type": "application/json" };
  expect((await stage.call("PUT", "/api/rules/a", { body: padded, headers })).status).toBe(201);
  const answer = await stage.call("PUT", "/api/rules/a", { body: `${padded} `, headers });
  expectError(answer, 413);
  expect(answer.headers["connection"]).toBe("close");
  const socket = connect(stage.port, "127.0.0.1");
  const lines = ["PUT /api/rules/a HTTP/1.1", "Host: localhost", `Authorization: Bearer ${writeToken}`];
  lines.push("Content-Type: application/json", "Content-Length: 10000000", "", "{");
  socket.write(lines.join("\r\n"));
  let text = "";
  for await (const chunk of socket) text += chunk;
  expect(text).toMatch(/^HTTP\/1\.1 413 /);
});

test("a call that fails is 500 without the reason, which is reported", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  expectError(await stage.call("DELETE", "/api/clients/client:0.0.0.1"), 500);
  expect(stage.failures).toEqual([new Error("a bug with token=secret at /srv/headgate")]);
});

test.each([
  ["GET", "/api/reload", "POST"],
  ["DELETE", "/api/status", "GET, HEAD"],
  ["PATCH", "/api/rules/a", "GET, HEAD, PUT, DELETE"],
])("%s %s is 405 with Allow", async (method, path, allow) => {
  const stage = shared;
  const answer = await stage.call(method, path, method === "PATCH" ? { body: {} } : {});
  expectError(answer, 405);
  expect(answer.headers["allow"]).toBe(allow);
});

test.each(["/API/status", "/api//status", "//api/status", "/%61pi/status", "/api/status/", "/api/./status"])(
  "GET %s is 404",
  async (path) => {
    expectError(await shared.call("GET", path), 404);
  },
);

test("names in a path are percent-decoded once", async () => {
  const asked: string[] = [];
  const spy = {
    ...clients,
    find(key: string) {
      asked.push(key);
      return clients.find(key);
    },
  };
  const stage = await stageApi(cleanup, fakePlane({ clients: spy }));
  for (const key of ["client:2001:db8::/64", "subject:a/b?c#d%2e é", "token:100%"]) {
    await stage.call("GET", `/api/clients/${encodeURIComponent(key)}`);
  }
  expect(asked).toEqual(["client:2001:db8::/64", "subject:a/b?c#d%2e é", "token:100%"]);
});

test("a HEAD has the fields of GET and no body", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const [get, head] = [await stage.call("GET", "/api/policies"), await stage.call("HEAD", "/api/policies")];
  expect([head.status, head.text, head.headers["content-length"]]).toEqual([200, "", get.headers["content-length"]]);
  expect(get.json).toEqual(policies);
});

test("over the Unix socket no token is asked, and the API exists without a tokens file", async () => {
  const socketPath = `${scratchFolder(cleanup)}/admin.sock`;
  const options = { socket: socketPath, access: { tokens: null } };
  const stage = await stageApi(cleanup, (await planeWithRules()).plane, options);
  const host = { host: "localhost" };
  for (const [method, path, status, each] of calls) {
    const answer = await stage.call(method, path, { ...each, socketPath, token: null, headers: host });
    expect([method, path, answer.status]).toEqual([method, path, status]);
  }
  expect(stage.audit[0]).toMatchObject({ caller: "socket", peer: null });
  const { json } = await stage.call("GET", "/api/status", { socketPath, token: null, headers: host });
  expect(json).toMatchObject({ caller: { name: "socket", role: "write" } });
  expectError(await stage.call("GET", "/api/status"), 404);
  for (const refused of [{ host: "evil.example" }, { host: "headgate" }]) {
    expectError(await stage.call("GET", "/api/status", { socketPath, token: null, headers: refused }), 421);
  }
  const headers = { ...host, origin: "http://evil.example" };
  expectError(await stage.call("GET", "/api/status", { socketPath, token: null, headers }), 403);
  expect((await stage.call("GET", "/metrics", { socketPath, token: null, headers: { host: "x" } })).status).toBe(200);
});

test("over TLS the same calls are answered, an origin must be https, and a new certificate is used at once", async () => {
  const authority = new Authority(cleanup);
  const issue = () => certificateOf(authority.issue());
  let certificate = issue();
  const stage = await stageApi(cleanup, (await planeWithRules()).plane, { certificate: () => certificate });
  const secure = (method: string, path: string, options: Call = {}) =>
    stage.call(method, path, { ...options, ca: authority.cert });
  for (const [method, path, status, options] of calls) {
    const answer = await secure(method, path, options);
    expect([method, path, answer.status]).toEqual([method, path, status]);
  }
  expect((await secure("GET", "/livez", { token: null })).status).toBe(200);
  expectError(await secure("GET", "/api/status", { token: null }), 401);
  const origin = `127.0.0.1:${stage.port}`;
  expect((await secure("GET", "/api/status", { headers: { origin: `https://${origin}` } })).status).toBe(200);
  expectError(await secure("GET", "/api/status", { headers: { origin: `http://${origin}` } }), 403);
  const other = new Authority(cleanup);
  certificate = certificateOf(other.issue());
  await expect(secure("GET", "/api/status")).rejects.toThrow();
  expect((await stage.call("GET", "/api/status", { ca: other.cert })).status).toBe(200);
  await expect(stage.call("GET", "/livez")).rejects.toThrow();
});

test("of writes with If-Match at the same time, one changes the rule, and the others are 412", async () => {
  const { book, plane } = await planeWithRules();
  const stage = await stageApi(cleanup, plane);
  const put = (note: string, headers: Record<string, string> = {}) =>
    stage.call("PUT", "/api/rules/a", { body: { ...block, note }, headers });
  const made = await Promise.all(Array.from({ length: 8 }, (_, i) => put(`${i}`, { "if-none-match": "*" })));
  expect(made.map(({ status }) => status).sort()).toEqual([201, ...new Array(7).fill(412)]);
  const etag = String(made.find(({ status }) => status === 201)?.headers["etag"]);
  expect((await stage.call("GET", "/api/rules/a")).headers["etag"]).toBe(etag);
  const changed = await Promise.all(Array.from({ length: 8 }, (_, i) => put(`n${i}`, { "if-match": etag })));
  expect(changed.map(({ status }) => status).sort()).toEqual([200, ...new Array(7).fill(412)]);
  expect(book.get("a")?.note).toBe(noteOf(changed.find(({ status }) => status === 200)?.json));
  const remove = (tag: string) => stage.call("DELETE", "/api/rules/a", { headers: { "if-match": tag } });
  expectError(await remove(etag), 412);
  expect((await remove("*")).status).toBe(200);
  expectError(await remove("*"), 412);
  expectError(await stage.call("DELETE", "/api/rules/a"), 404);
  expectError(await stage.call("GET", "/api/rules/a"), 404);
});

const noteOf = (json: unknown): unknown => (json as { note?: unknown } | undefined)?.note;

test.each([
  [{ "if-match": "5" }],
  [{ "if-match": '"1' }],
  [{ "if-none-match": '"1"' }],
  [{ "if-match": '"1"', "if-none-match": "*" }],
])("a condition that is none is 400: %j", async (headers: Record<string, string>) => {
  const stage = shared;
  expectError(await stage.call("PUT", "/api/rules/a", { body: block, headers }), 400);
});

test("a condition that does not hold says what there is", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  const put = async (headers: Record<string, string>) =>
    (await stage.call("PUT", "/api/rules/a", { body: block, headers })).json;
  const saying = (errMsg: string) => ({ message: "Precondition Failed", errors: [{ errMsg }] });
  expect(await put({ "if-match": "*" })).toEqual(saying("If-Match: there is no rule with this id."));
  expect(await put({ "if-match": '"1"' })).toEqual(saying("If-Match: there is no rule with this id."));
  expect(await put({})).toMatchObject({ id: "a" });
  expect(await put({ "if-none-match": "*" })).toEqual(saying("If-None-Match: there is a rule with this id."));
  expect(await put({ "if-match": '"7"' })).toEqual(saying('If-Match: the entity tag of the rule is "1" now.'));
});

test("a weak tag, and one of another rule, match nothing", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  await stage.call("PUT", "/api/rules/a", { body: block });
  for (const tag of ['W/"1"', '"2"', '"", "x"']) {
    expectError(await stage.call("PUT", "/api/rules/a", { body: block, headers: { "if-match": tag } }), 412);
  }
  const answer = await stage.call("PUT", "/api/rules/a", { body: block, headers: { "if-match": '"7", "1"' } });
  expect([answer.status, answer.headers["etag"]]).toEqual([200, '"2"']);
});

test("a refused request is found by its id, and another id is 404", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  expect((await stage.call("GET", "/api/requests/abc")).json).toEqual(requestAnswer);
  const unknown = await stage.call("GET", "/api/requests/abd");
  expectError(unknown, 404);
  expect(unknown.text).toContain("No refusal with this id is remembered");
});

test("calls run a few at a time, and the others wait for their turn", async () => {
  let [running, most] = [0, 0];
  const held: (() => void)[] = [];
  const plane = fakePlane({
    async status() {
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => void held.push(resolve));
      running -= 1;
      return status;
    },
  });
  const stage: ApiStage = await stageApi(cleanup, plane);
  const answers = Array.from({ length: 12 }, () => stage.call("GET", "/api/status"));
  while (held.length < 4) await new Promise((resolve) => void setImmediate(resolve));
  expect((await stage.call("GET", "/livez")).status).toBe(200);
  let isOver = false;
  void Promise.all(answers).then(() => {
    isOver = true;
  });
  while (!isOver) {
    held.shift()?.();
    await new Promise((resolve) => void setImmediate(resolve));
  }
  expect((await Promise.all(answers)).map((answer) => answer.status)).toEqual(new Array(12).fill(200));
  expect(most).toBe(4);
});

test("calls that only read, however many there are, do not delay what changes something", async () => {
  const held: (() => void)[] = [];
  const { plane } = await planeWithRules({
    async status() {
      await new Promise<void>((resolve) => void held.push(resolve));
      return status;
    },
  });
  const stage = await stageApi(cleanup, plane);
  const reads = Array.from({ length: 24 }, () => stage.call("GET", "/api/status", { token: readToken }));
  await eventually("all turns are taken", () => held.length === maxAtOnce);
  expect((await stage.call("PUT", "/api/rules/a", { body: block })).status).toBe(201);
  expect((await stage.call("DELETE", "/api/clients/client:203.0.113.7")).status).toBe(200);
  const ends = setInterval(() => held.shift()?.(), 1);
  cleanup(() => clearInterval(ends));
  expect(new Set((await Promise.all(reads)).map((answer) => answer.status))).toEqual(new Set([200]));
});

// They wait for each other's answers, and so the tests run at the same time.
test.concurrent.for(["/api/rules", "/api/config", "/api/config?against=previous"])(
  "those who ask for %s at the same time share one answer",
  async (path, context) => {
    const cleanup = cleanupOf(context);
    const { plane } = await planeWithRules();
    const { rules } = plane;
    let made = 0;
    // Then the next one is made much later.
    const begin = async (): Promise<void> => {
      made += 1;
      await new Promise((resolve) => void setTimeout(resolve, 20));
    };
    const counted: ControlPlane = {
      ...plane,
      rules: rules && {
        ...rules,
        async *list() {
          await begin();
          yield* rules.list();
        },
      },
      async config(against) {
        await begin();
        return plane.config(against);
      },
    };
    const stage = await stageApi(cleanup, counted);
    await stage.call("PUT", "/api/rules/a", { body: block });
    const answers = await Promise.all(Array.from({ length: 30 }, () => stage.call("GET", path)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    for (const answer of answers) {
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json; charset=utf-8"]);
    }
    expect(made).toBeLessThan(5);
  },
);

test("rules are listed by id, as of when they are asked for", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  const ids = async (): Promise<string[]> => {
    const { json } = await stage.call("GET", "/api/rules");
    return (json as { rules: { id: string }[] }).rules.map(({ id }) => id);
  };
  expect(await ids()).toEqual([]);
  for (const id of ["b", "c", "a"]) await stage.call("PUT", `/api/rules/${id}`, { body: block });
  expect(await ids()).toEqual(["a", "b", "c"]);
  await stage.call("DELETE", "/api/rules/b");
  expect(await ids()).toEqual(["a", "c"]);
});

test("a drain begins when its answer was sent", async () => {
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const answer = await stage.call("POST", "/api/drain", { body: {} });
  expect([answer.status, answer.json]).toEqual([202, { state: "draining", delaySeconds: 0, timeoutSeconds: 25 }]);
  while (plane.drains() === 0) await new Promise((resolve) => void setImmediate(resolve));
  expect(plane.drains()).toBe(1);
});

test("a client that leaves while its body is read is no failure", async () => {
  const stage = await stageApi(cleanup, (await planeWithRules()).plane);
  await stage.call("GET", "/api/status");
  const socket = connect(stage.port, "127.0.0.1");
  const lines = ["PUT /api/rules/a HTTP/1.1", "Host: localhost", `Authorization: Bearer ${writeToken}`];
  socket.write([...lines, "Content-Type: application/json", "Content-Length: 100", "", "{"].join("\r\n"));
  await once(socket, "ready");
  socket.destroy();
  expect((await stage.call("GET", "/api/status")).status).toBe(200);
  expect(stage.failures).toEqual([]);
});

/** Sends a request on a connection that is kept, and waits for the head of its answer. */
async function keep(port: number, localAddress: string, path: string, token = writeToken): Promise<Socket> {
  const socket = cleanup(connect({ port, host: "127.0.0.1", localAddress }));
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await once(socket, "data");
  socket.resume();
  return socket;
}

test("calls and streams of the API take no place from probes and scrapes", async () => {
  let shed = 0;
  const stage = await stageApi(cleanup, fakePlane(), {
    onClosedForRoom: () => {
      shed += 1;
    },
  });
  const probes: Socket[] = [];
  for (let i = 0; i < maxAdminConnections / 2; i += 1) {
    probes.push(await keep(stage.port, `127.0.1.${i}`, "/livez"));
  }
  const streams: Socket[] = [];
  for (let i = 0; i < maxStreams; i += 1) streams.push(await keep(stage.port, "127.0.0.2", "/api/events"));
  const calls: Socket[] = [];
  for (let i = 0; i < 10; i += 1) calls.push(await keep(stage.port, `127.0.2.${i}`, "/api/status"));
  for (let i = 0; i < maxAdminConnections / 2; i += 1) {
    probes.push(await keep(stage.port, `127.0.3.${i}`, "/livez"));
  }
  expect([shed, [...probes, ...streams, ...calls].filter(({ destroyed }) => destroyed)]).toEqual([0, []]);
  // One who has no token stays where probes are.
  await keep(stage.port, "127.0.4.1", "/api/status", "wrong");
  expect(shed).toBe(1);
});

test("of one address at most half of the places of the API are taken, and the oldest idle one goes", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const kept: Socket[] = [];
  for (let i = 0; i < maxApiConnections; i += 1) kept.push(await keep(stage.port, "127.0.0.2", "/api/status"));
  await eventually("half of them are closed", () => {
    return kept.filter(({ destroyed }) => destroyed).length === maxApiConnections / 2;
  });
  expect(kept.slice(maxApiConnections / 2).filter(({ destroyed }) => destroyed)).toEqual([]);
  expect((await stage.call("GET", "/api/status", { localAddress: "127.0.0.3" })).status).toBe(200);
});
