// The admin API of the real gateway, with one thread and with two: what it shows, and what it does.
import { once } from "node:events";
import { existsSync, lstatSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import type { Static } from "typebox";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import * as schemas from "../../src/admin/schemas.ts";
import { type Call, call as callAt, readToken, writeToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { exchange } from "../support/raw-client.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

interface Stage {
  readonly gateway: TestGateway;
  readonly folder: string;
  readonly upstreamAddress: string;
  closeUpstream(): Promise<void>;
  write(yaml: string, admin?: string): void;
  call(method: string, path: string, call?: Call): ReturnType<typeof callAt>;
  /** Sends so many requests, each over a connection of its own. */
  ask(count: number): Promise<number[]>;
}

const lineOf = (token: string, role: string, name: string) => `${digestOf(token)} ${role} # ${name}\n`;
const tokens = lineOf(readToken, "read", "dashboard") + lineOf(writeToken, "write", "ops");

/** `yaml`: what follows on what a test gateway needs. FOLDER stands for a folder of the test. */
async function start(
  workers: number,
  yaml = "",
  admin = "tokensFile: FOLDER/admin.txt",
  files: Readonly<Record<string, string>> = {},
): Promise<Stage> {
  const upstream = cleanup(await startUpstream());
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  const write = (text: string, section = admin): void => {
    const port = section.includes("port:") ? "" : "port: 0, ";
    writeFileSync(`${file}.new`, `admin: { ${port}${section} }\n${text}`.replaceAll("FOLDER", folder));
    renameSync(`${file}.new`, file);
  };
  for (const [name, text] of Object.entries({ "admin.txt": tokens, ...files })) writeFileSync(join(folder, name), text);
  write(yaml);
  const gateway = await startFromFile(cleanup, upstream.url, file, { workers: `${workers}` });
  return {
    gateway,
    folder,
    write,
    upstreamAddress: new URL(upstream.url).host,
    closeUpstream: () => upstream.close(),
    call: (method, path, call) => callAt(gateway.admin.port, method, path, call),
    ask: (count) =>
      Promise.all(
        Array.from({ length: count }, async () => {
          const headers = { authorization: "Bearer x", connection: "close" };
          const response = await fetch(`${gateway.url}/v2/x`, { headers });
          await response.text();
          return response.status;
        }),
      ),
  };
}

const logged = ({ logLines }: TestGateway, message: string) => logLines.filter(({ msg }) => msg === message);

function expectFit(schema: object, json: unknown): void {
  const { error } = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(json);
  expect(error?.issues ?? null).toBeNull();
}

/** Asks until a thread has handed over what it has refused, which it does once a second. `text`: a part of the answer. */
async function handedOver<Answer extends { readonly status: number; readonly text: string }>(
  ask: () => Promise<Answer>,
  text = "",
): Promise<Answer> {
  let answer = await ask();
  await eventually("a thread has handed over what it has refused", async () => {
    if (answer.status === 200 && answer.text.includes(text)) return true;
    answer = await ask();
    return false;
  });
  return answer;
}

const policies = `
policies:
  - { name: small, limit: 3, window: 1h, overrides: [{ client: 10.0.0.0/8, limit: 7 }] }
  - { name: watched, limit: 1, window: 1h, mode: shadow, key: [client, "header:X-Key"] }
`;

/** Where a call reloads what was written: a watched file would be reloaded by itself, if the call comes late. */
const unwatched = "reload: { watch: false }\n";

describe.each(threadCounts)("with %i threads", (workers) => {
  test("the status says what runs, and where the upstream is", async () => {
    const { call, gateway, upstreamAddress, ask } = await start(workers);
    await ask(3);
    const { status, json } = await call("GET", "/api/status");
    expect(status).toBe(200);
    expectFit(schemas.Status, json);
    expect(json).toMatchObject({
      ...{
        version: "0.0.0-test",
        state: "ready",
        store: null,
        certificate: null,
        adminCertificate: null,
        tokens: null,
      },
      config: { loadedBy: "start", isCurrent: true, restart: [], lastReload: null },
      workers: { configured: workers, serving: workers, restarts: 0 },
      upstream: { state: "up", reason: null, addresses: [{ address: upstreamAddress, state: "available", active: 0 }] },
    });
    expect(gateway.logLines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("the outcomes of policies are those of all threads", async () => {
    const { call, ask } = await start(workers, policies);
    const statuses = await ask(8);
    expect(statuses.filter((status) => status === 200).length).toBe(3);
    const { json } = await call("GET", "/api/policies", { token: readToken });
    expectFit(schemas.PolicyList, json);
    expect(json).toMatchObject({
      enforcement: "on",
      policies: [
        {
          ...{ name: "small", kind: "sliding", limit: 3, windowSeconds: 3600, key: ["client"], mode: "enforce" },
          overrides: [{ part: "client", value: "10.0.0.0/8", limit: 7 }],
          outcomes: { admitted: 3, throttled: 5 },
        },
        { name: "watched", key: ["client", "header:x-key"], mode: "shadow", outcomes: { admitted: 1 } },
      ],
    });
  });

  test("a reload is carried out, shown, and logged once for whoever asked", async () => {
    const { call, write, gateway } = await start(workers, unwatched + policies);
    write(unwatched + policies.replace("limit: 3", "limit: 4"));
    const reload = await call("POST", "/api/reload", { body: {} });
    expect(reload.status).toBe(200);
    expectFit(schemas.ReloadAnswer, reload.json);
    expect(reload.json).toMatchObject({
      outcome: "applied",
      changes: [{ key: "policies.small.limit", from: "3", to: "4" }],
    });
    expect(logged(gateway, "admin call")).toMatchObject([
      { caller: "ops", peer: "127.0.0.1", call: "POST /api/reload", status: 200, after: { outcome: "applied" } },
    ]);
    const { json } = await call("GET", "/api/config?against=previous");
    expectFit(schemas.Config, json);
    expect(json).toMatchObject({
      lastReload: { by: "call", changes: [{ key: "policies.small.limit", from: "3", to: "4" }] },
    });
    expect((await call("GET", "/api/policies")).json).toMatchObject({ policies: [{ limit: 4 }, {}] });
    expect((await call("POST", "/api/reload", { body: {} })).json).toMatchObject({ outcome: "unchanged", changes: [] });
    const { json: status } = await call("GET", "/api/status");
    expect(status).toMatchObject({ config: { loadedBy: "call", lastReload: { by: "call", outcome: "unchanged" } } });
  });

  test("a dry run says what a reload would change, a wrong file too, and changes and logs nothing", async () => {
    const { call, write, gateway } = await start(workers, unwatched + policies);
    const dryRun = (token?: string) => {
      return call("POST", "/api/reload", { body: { dryRun: true }, ...(token === undefined ? {} : { token }) });
    };
    expect((await dryRun()).json).toMatchObject({ outcome: "unchanged", changes: [], reset: [], restart: [] });
    const wanted = policies.replace("limit: 3", "limit: 4").replace("name: watched", "name: seen");
    write(`${unwatched}counters: { memory: 48MiB }\nauth: { mode: "off" }\n${wanted}`);
    const before = await call("GET", "/api/config?against=previous");
    const first = await dryRun();
    expectFit(schemas.ReloadAnswer, first.json);
    expect(first.json).toMatchObject({
      ...{ outcome: "applied", reset: ["seen"], restart: ["counters.memory"], loosened: ["auth.mode"], trial: null },
      changes: expect.arrayContaining([{ key: "policies.small.limit", from: "3", to: "4" }]),
    });
    expect((await dryRun()).json).toEqual(first.json);
    expect((await call("GET", "/api/config?against=previous")).json).toEqual(before.json);
    expect((await call("GET", "/api/status")).json).toMatchObject({ config: { lastReload: null, isCurrent: true } });
    const { trial: _, ...would } = first.json as Static<typeof schemas.ReloadAnswer>;
    expect((await call("POST", "/api/reload", { body: {} })).json).toMatchObject(would);
    write("maxBodyBytes: 0\n");
    expect((await dryRun()).json).toMatchObject({ errors: [{ errMsg: expect.stringContaining("maxBodyBytes") }] });
    expect((await dryRun(readToken)).status).toBe(403);
    expect(logged(gateway, "admin call")).toHaveLength(1);
    expect((await call("GET", "/api/status")).json).toMatchObject({ config: { isCurrent: true } });
  });

  test("a reload of a wrong file is 409 with each error, and changes nothing", async () => {
    const { call, write, gateway } = await start(workers, unwatched);
    write("routes: [v3]\nmaxBodyBytes: 0\n");
    const answer = await call("POST", "/api/reload", { body: {} });
    expect(answer.status).toBe(409);
    expect(answer.json).toEqual({
      message: "Conflict",
      errors: [
        { errMsg: expect.stringContaining("routes.0: found") },
        { errMsg: expect.stringContaining("maxBodyBytes") },
      ],
    });
    expect(logged(gateway, "admin call")).toMatchObject([{ caller: "ops", call: "POST /api/reload", status: 409 }]);
    expect((await call("GET", "/api/status")).json).toMatchObject({
      config: { loadedBy: "start", isCurrent: false, lastReload: { outcome: "failed" } },
    });
  });

  test("a reload on trial is shown, and confirmed or taken back by a call", async () => {
    const { call, write, gateway } = await start(workers, unwatched + policies);
    expect((await call("POST", "/api/reload/confirm", { body: {} })).status).toBe(409);
    expect((await call("POST", "/api/reload/take-back", { body: {} })).status).toBe(409);
    write(unwatched + policies.replace("limit: 3", "limit: 4"));
    const reload = await call("POST", "/api/reload", {
      body: { confirmWithin: "5m", unless: { refusedShare: 0.05 } },
    });
    expectFit(schemas.ReloadAnswer, reload.json);
    const trial = {
      ...{ since: expect.any(String), ends: expect.any(String), unconfirmed: "takeBack" },
      ...{ refusedShare: 0.05, judged: 0, refused: 0, changed: ["policies.small.limit"] },
      ...{ cause: "call", by: "ops", changes: [{ key: "policies.small.limit", from: "3", to: "4" }] },
    };
    expect(reload.json).toMatchObject({ outcome: "applied", trial });
    expect((await call("GET", "/api/status")).json).toMatchObject({
      trial,
      lastTrial: null,
      config: { isCurrent: true },
    });
    const back = await call("POST", "/api/reload/take-back", { body: {} });
    expectFit(schemas.ReloadAnswer, back.json);
    expect(back.json).toMatchObject({
      ...{ outcome: "applied", trial: null, reset: [] },
      changes: [{ key: "policies.small.limit", from: "4", to: "3" }],
    });
    const { json: status } = await call("GET", "/api/status");
    expectFit(schemas.Status, status);
    expect(status).toMatchObject({
      trial: null,
      lastTrial: { outcome: "taken_back", reason: "asked", by: "ops", trial },
      config: { isCurrent: false, loadedBy: "trial", lastReload: { by: "trial", outcome: "applied" } },
    });
    const { json: config } = await call("GET", "/api/config?against=previous");
    expectFit(schemas.Config, config);
    expect(config).toMatchObject({
      lastReload: { by: "trial", caller: "ops" },
      lastTrial: { outcome: "taken_back", by: "ops" },
    });
    expect((await call("GET", "/api/config")).json).not.toHaveProperty("lastTrial");
    await call("POST", "/api/reload", { body: { confirmWithin: "5m", unconfirmed: "keep" } });
    const confirmed = await call("POST", "/api/reload/confirm", { body: {} });
    expectFit(schemas.ConfirmAnswer, confirmed.json);
    expect(confirmed.json).toMatchObject({ confirmed: { ...trial, refusedShare: null, unconfirmed: "keep" } });
    expect((await call("GET", "/api/policies")).json).toMatchObject({ policies: [{ limit: 4 }, {}] });
    expect((await call("GET", "/api/status")).json).toMatchObject({
      ...{ trial: null, config: { isCurrent: true } },
      lastTrial: { outcome: "confirmed", reason: "asked", by: "ops" },
    });
    const audit = logged(gateway, "admin call").map(({ call: each, status: code }) => [each, code]);
    expect(audit.slice(2)).toEqual([
      ["POST /api/reload", 200],
      ["POST /api/reload/take-back", 200],
      ["POST /api/reload", 200],
      ["POST /api/reload/confirm", 200],
    ]);
    for (const body of [
      ...[{ confirmWithin: "999ms" }, { confirmWithin: "25h" }, { unconfirmed: "keep" }],
      { unless: { refusedShare: 0.05 } },
    ]) {
      expect((await call("POST", "/api/reload", { body })).status).toBe(400);
    }
  });

  test("a drain ends the gateway, the streams first, and answers before", async () => {
    const { call, gateway } = await start(workers);
    const headers = { authorization: `Bearer ${readToken}` };
    const stream = await fetch(`${gateway.adminUrl}/api/events`, { headers });
    const text = stream.text();
    const answer = await call("POST", "/api/drain", { body: {} });
    expect([answer.status, answer.json]).toEqual([202, { state: "draining", delaySeconds: 0, timeoutSeconds: 1 }]);
    await gateway.drainBegan;
    expect(await text).toContain("event: drain\n");
    await gateway.drain();
    await expect(fetch(gateway.url)).rejects.toThrow();
    await expect(fetch(`${gateway.adminUrl}/livez`)).rejects.toThrow();
  });

  test("what is wrong with a malformed request is told", async () => {
    const { call, gateway } = await start(workers, policies);
    const answer = await exchange(gateway.traffic.port, "GET /v2/x HTTP/1.1\r\nX : secret\r\n\r\n");
    const found = await handedOver(() => {
      return call("GET", `/api/requests/${/x-request-id: (\S+)/i.exec(answer)?.[1]}`, { token: readToken });
    });
    expectFit(schemas.RequestAnswer, found.json);
    expect(found.json).toMatchObject({
      reason: "malformed",
      explanation: [expect.any(String), expect.stringContaining("wrong with it: a blank in or behind a name.")],
    });
    expect(found.text).not.toContain("secret");
  });

  test("a rule holds from its answer on, is shown where it matters, and is gone when it is removed", async () => {
    const { call, ask, gateway } = await start(workers, policies);
    const wanted = { client: "127.0.0.1", action: "block", for: "1h", note: "a test" };
    const refused = await call("PUT", "/api/rules/me", { body: wanted });
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("set force")]);
    const made = await call("PUT", "/api/rules/me", { body: { ...wanted, force: true } });
    expect([made.status, made.headers["etag"]]).toEqual([201, '"1"']);
    expectFit(schemas.Rule, made.json);
    expect(made.json).toMatchObject({ id: "me", client: "127.0.0.1", for: "1h", setBy: "ops", survivesRestart: false });
    expect(await ask(4)).toEqual([403, 403, 403, 403]);
    const response = await fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" } });
    const id = response.headers.get("x-request-id");
    const found = await handedOver(() => call("GET", `/api/requests/${id}`, { token: readToken }));
    expectFit(schemas.RequestAnswer, found.json);
    expect(found.json).toMatchObject({ id, status: 403, reason: "blocked", client: "127.0.0.1", rule: "me" });
    expect(found.json).toMatchObject({ remedies: [{ does: "removeRule", call: "DELETE /api/rules/me" }] });
    expect((await call("GET", "/api/requests/none")).status).toBe(404);
    expect((await call("DELETE", "/api/rules/me", { headers: { "if-match": '"1"' } })).status).toBe(200);
    expect(await ask(1)).toEqual([200]);
    expect((await call("GET", "/api/rules")).json).toEqual({ rules: [] });
    const history = await call("GET", "/api/history");
    expectFit(schemas.History, history.json);
    for (const wrong of ["0", "181", "-1", "1.5", "x"]) {
      expect([wrong, (await call("GET", `/api/history?steps=${wrong}`)).status]).toEqual([wrong, 400]);
    }
    expect(logged(gateway, "admin call").map(({ call, status }) => `${call} ${status}`)).toEqual([
      "PUT /api/rules/me 409",
      "PUT /api/rules/me 201",
      "DELETE /api/rules/me 200",
    ]);
  });

  test("a client that is refused is found, explained and forgiven, and then has its limit exactly once more", async () => {
    const { call, ask, gateway } = await start(workers, policies);
    expect((await ask(8)).filter((status) => status === 200).length).toBe(3);
    const listed = (sort: string) => call("GET", `/api/clients?policy=small&sort=${sort}`, { token: readToken });
    const { json: bySort } = await handedOver(() => listed("refused"), '"count":5');
    expectFit(schemas.ClientList, bySort);
    const counted = { key: "client:127.0.0.1", policy: "small", limit: 3, used: 3, remaining: 0 };
    expect(bySort).toMatchObject({
      clients: [{ ...counted, refused: { count: 5, error: 0 } }],
      ...{ isComplete: true, isShared: false },
    });
    expect((await listed("used")).json).toMatchObject({ clients: [{ ...counted, refused: { count: 5, error: 0 } }] });
    const state = await call("GET", "/api/clients/client:127.0.0.1", { token: readToken });
    expectFit(schemas.ClientState, state.json);
    expect(state.json).toMatchObject({
      policies: expect.arrayContaining([expect.objectContaining({ policy: "small", refused: { count: 5, error: 0 } })]),
    });
    expect(state.json).toMatchObject({
      policies: [
        {
          ...{ policy: "small", state: "exhausted", used: 3, remaining: 0, isShadow: false, countedAs: null },
          instants: expect.toSatisfy((instants: { units: number }[]) => {
            return instants.reduce((units, each) => units + each.units, 0) === 3;
          }),
        },
        { policy: "watched", isShadow: true, gap: expect.stringContaining("header") },
      ],
    });
    expect((await call("DELETE", "/api/clients/client:127.0.0.1", { token: readToken })).status).toBe(403);
    const [last] = ((await call("GET", "/api/refusals?limit=1")).json as Static<typeof schemas.RefusalList>).refusals;
    const found = await call("GET", `/api/requests/${last?.id}`);
    const { remedies, explanation } = found.json as Static<typeof schemas.RequestAnswer>;
    expect(remedies).toEqual([{ does: "forgive", call: "DELETE /api/clients/client%3A127.0.0.1" }]);
    // What is to be linked or shown as a time of day has fields of its own.
    expect(explanation.join(" ")).not.toMatch(/\/api\/|\d\dT\d\d:/);
    const [method = "", path = ""] = remedies[0]?.call.split(" ") ?? [];
    const forgiven = await call(method, path);
    expectFit(schemas.Forgiven, forgiven.json);
    expect(forgiven.json).toMatchObject({
      ...{ key: "client:127.0.0.1", network: null, shared: null },
      policies: [{ policy: "small", units: 3, countedAs: null }, { policy: "watched" }],
    });
    expect(logged(gateway, "admin call").map((line) => line["call"])).toEqual([
      "DELETE /api/clients/client%3A127.0.0.1",
    ]);
    expect((await ask(8)).filter((status) => status === 200).length).toBe(3);
  });

  test("a network has the rules about it though nothing is counted of it, and its clients are listed with what they do", async () => {
    const { call, ask } = await start(workers, policies);
    await ask(1);
    const network = "/api/clients/client:127.0.0.0%2F30";
    expect((await call("GET", network)).status).toBe(404);
    const body = { client: "127.0.0.0/30", action: "block", for: "1h", force: true };
    expect((await call("PUT", "/api/rules/net", { body })).status).toBe(201);
    const { json } = await call("GET", network, { token: readToken });
    expectFit(schemas.ClientState, json);
    expect(json).toMatchObject({ key: "client:127.0.0.0/30", policies: [], rules: [{ id: "net" }] });
    const { json: list } = await call("GET", "/api/clients?policy=small", { token: readToken });
    expect(list).toMatchObject({ clients: [{ key: "client:127.0.0.1", actions: ["block"] }] });
  });

  test("the last refusals of a client, a network and a token are listed, and those of others are not", async () => {
    const yaml = `
auth: { mode: tokens, tokensFile: FOLDER/tokens.txt }
policies:
  - { name: small, limit: 3, window: 1h, who: others }
  - { name: by-partner, key: [subject], limit: 1, window: 1h, who: verified }
`;
    const files = { "tokens.txt": `${digestOf("alices-token")} # alice\n` };
    const { call, ask, gateway } = await start(workers, yaml, undefined, files);
    expect((await ask(4)).toSorted()).toEqual([401, 401, 401, 429]);
    const headers = { authorization: "Bearer alices-token" };
    const mine = async () => (await fetch(`${gateway.url}/v2/mine`, { headers })).status;
    expect([await mine(), await mine()]).toEqual([200, 429]);
    // A thread hands over what it has refused once a second: of one client, five.
    const refusals = async (query: string) => {
      const { json } = await call("GET", `/api/refusals?${query}`, { token: readToken });
      expectFit(schemas.RefusalList, json);
      return json as Static<typeof schemas.RefusalList>;
    };
    await eventually("all refusals are there", async () => (await refusals("")).refusals.length === 5);
    const { refusals: all, isComplete } = await refusals("key=client:127.0.0.1");
    expect([all.length, isComplete]).toEqual([5, true]);
    const instants = all.map(({ at }) => at);
    expect(instants).toEqual(instants.toSorted().toReversed());
    expect(new Set(all.map(({ status, reason }) => `${status} ${reason}`))).toEqual(
      new Set(["401 invalid_token", "429 throttled"]),
    );
    expect(await refusals("key=client:127.0.0.0/8&limit=2")).toMatchObject({
      refusals: all.slice(0, 2),
      isComplete: false,
    });
    expect(await refusals("key=client:127.0.0.2")).toEqual({ refusals: [], isComplete: true });
    const ofAlice = { refusals: [{ status: 429, subject: "alice", path: "/v2/mine" }], isComplete: true };
    for (const kind of ["token", "subject"]) expect(await refusals(`key=${kind}:alice`)).toMatchObject(ofAlice);
    const [{ key = null } = {}] = (await refusals("key=token:alice")).refusals;
    expect(key).toMatch(/^key:/);
    expect(await refusals(`key=${key}`)).toMatchObject(ofAlice);
    for (const wrong of ["key=nobody:x", "key=client:x", "key=key:1", "limit=0", "limit=201", "other=1"]) {
      expect([wrong, (await call("GET", `/api/refusals?${wrong}`)).status]).toEqual([wrong, 400]);
    }
  });

  test("a calendar quota says when its period began and ends, also if nothing is used", async () => {
    const yaml = "policies:\n  - { name: monthly, limit: 9, per: month, timezone: Asia/Kolkata }\n";
    const { call, ask } = await start(workers, yaml);
    await ask(2);
    for (const [client, used] of [
      ["127.0.0.1", 2],
      ["203.0.113.7", 0],
    ] as const) {
      const { json } = await call("GET", `/api/clients/client:${client}`);
      expectFit(schemas.ClientState, json);
      const [{ period = null } = {}] = (json as Static<typeof schemas.ClientState>).policies;
      expect(json).toMatchObject({ policies: [{ used, limit: 9 }] });
      // Midnight there.
      expect([period?.start, period?.end]).toEqual(Array(2).fill(expect.stringMatching(/T18:30:00\.000Z$/)));
      const [startMs, endMs] = [Date.parse(period?.start ?? ""), Date.parse(period?.end ?? "")];
      expect(startMs <= Date.now() && Date.now() < endMs).toBe(true);
      expect((endMs - startMs) / 86_400_000).toSatisfy((days: number) => [28, 29, 30, 31].includes(days));
    }
  });

  test("a request that is tried gets what the next one gets, and is not counted", async () => {
    const { call, ask } = await start(workers, policies);
    const body = { method: "GET", target: "/v2/x", client: "127.0.0.1", headers: { authorization: "Bearer x" } };
    const tried = async () => (await call("POST", "/api/check", { body, token: readToken })).json;
    expectFit(schemas.CheckAnswer, await tried());
    const quota = { limit: 3, used: 0, remaining: 3, reset: null, key: "client:127.0.0.1", fits: true };
    expect(await tried()).toMatchObject({ status: 200, reason: null, route: "/v2/", policies: [{ quota }, {}] });
    expect(await ask(3)).toEqual([200, 200, 200]);
    expect(await tried()).toMatchObject({
      ...{ status: 429, reason: "throttled", policy: "small", auth: "skipped" },
      policies: [{ policy: "small", outcome: "throttled", quota: { used: 3, remaining: 0, fits: false } }, {}],
      explanation: [
        expect.stringContaining("Policy small refuses it"),
        expect.stringContaining("Policy watched would"),
      ],
    });
    expect(await ask(1)).toEqual([429]);
    const other = { ...body, client: "10.1.2.3" };
    expect((await call("POST", "/api/check", { body: other })).json).toMatchObject({
      ...{ status: 200, client: "10.1.2.3" },
      policies: [{ quota: { limit: 7, used: 0 } }, {}],
    });
  });

  test("rules, and refusals, are events", async () => {
    const { call, ask, gateway } = await start(workers, policies);
    const response = await fetch(`${gateway.adminUrl}/api/events`, {
      headers: { authorization: `Bearer ${readToken}` },
    });
    let text = "";
    void (async () => {
      for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
    })().catch(() => {});
    await eventually("it is connected", () => text !== "");
    await call("PUT", "/api/rules/other", { body: { client: "203.0.113.0/24", action: "block", for: "1s" } });
    await eventually("the rule has come", () => text.includes('"set":[{"id":"other"'));
    await eventually("a refusal has come", async () => {
      await ask(1);
      return text.includes('event: refusal\ndata: {"type":"refusal"') && text.includes('"reason":"throttled"');
    });
    await eventually("the end of the rule has come", () => text.includes('"removed":["other"]'));
    for (const line of text.split("\n").filter((each) => each.startsWith("data: "))) {
      expectFit(schemas.ControlEvent, JSON.parse(line.slice(6)));
    }
  });

  test("reloads, and an upstream that fails, are events", async () => {
    const { call, gateway, write, ask, closeUpstream } = await start(workers, unwatched);
    const headers = { authorization: `Bearer ${readToken}` };
    const response = await fetch(`${gateway.adminUrl}/api/events`, { headers });
    let text = "";
    void (async () => {
      for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
    })().catch(() => {});
    await eventually("it is connected", () => text !== "");
    write(`${unwatched}maxBodyBytes: 1MiB\n`);
    expect((await call("POST", "/api/reload", { body: {} })).status).toBe(200);
    await eventually("the reload has come", () => text.includes('"changed":["maxBodyBytes"'));
    write(`${unwatched}maxBodyBytes: 2MiB\n`);
    await call("POST", "/api/reload", { body: { confirmWithin: "5m" } });
    await call("POST", "/api/reload/take-back", { body: {} });
    await eventually("the trial's end has come", () => text.includes('"outcome":"taken_back"'));
    await closeUpstream();
    expect(await ask(1)).toEqual([502]);
    await eventually("the upstream's state has come", () =>
      text.includes('"upstream":{"state":"down","reason":"refused"'),
    );
    const events = text.split("\n").filter((line) => line.startsWith("data: "));
    for (const event of events) expectFit(schemas.ControlEvent, JSON.parse(event.slice(6)));
  });
});

test("SIGHUP and a changed file are on trial if the configuration says so, and what was taken back is not taken again", async () => {
  const watched = (limit: number, watch: boolean) =>
    `reload: { watch: ${watch}, trial: { confirmWithin: 5m, unlessRefused: 5% } }\n${policies.replace("limit: 3", `limit: ${limit}`)}`;
  const { call, write, gateway } = await start(1, watched(3, false));
  write(watched(4, false));
  await gateway.reloadFromSource("signal");
  expect(gateway.trial.trial).toMatchObject({ confirmWithinMs: 300_000, refusedShare: 0.05, unconfirmed: "takeBack" });
  // A call says itself what is on trial.
  expect((await call("POST", "/api/reload", { body: {} })).json).toMatchObject({ outcome: "unchanged", trial: null });
  write(watched(4, true));
  await gateway.reloadFromSource("signal");
  await gateway.trial.confirm();
  const limitNow = async () =>
    ((await call("GET", "/api/policies")).json as { policies: { limit: number }[] }).policies[0]?.limit;
  write(watched(5, true));
  await eventually("the file is on trial", () => gateway.trial.trial !== null);
  expect(await limitNow()).toBe(5);
  await gateway.trial.takeBack();
  expect(await limitNow()).toBe(4);
  // Another file of the same content is no change.
  write(watched(5, true));
  write(watched(6, true));
  await eventually("the changed file is on trial", () => gateway.trial.trial !== null);
  expect(await limitNow()).toBe(6);
});

test("the configuration says where each value was written, masks secrets, and what needs a restart", async () => {
  const yaml = `${policies.replace("client: 10.0.0.0/8", `header: secret-key`).replace("limit: 3,", 'limit: 3, key: [client, "header:X-Key"],')}
  - { name: all, limit: 5000, window: 1h }
${unwatched}`;
  const { call, write, folder } = await start(1, yaml);
  const first = (await call("GET", "/api/config")).json as {
    values: Record<string, Record<string, unknown>>;
    origins: { key: string; source: string; place: string }[];
  };
  expectFit(schemas.Config, first);
  expect(JSON.stringify(first)).not.toContain("secret-key");
  const originOf = (key: string) => first.origins.find((each) => each.key === key);
  expect(originOf("policies.small.limit")).toMatchObject({ source: "file", place: `${folder}/headgate.yaml:4:27` });
  expect(originOf("upstream.url")).toMatchObject({ source: "command line", place: "--set upstream.url" });
  expect(originOf("maxBodyBytes")).toBeUndefined();
  expect(first.values["admin"]).toMatchObject({ port: 0, host: "127.0.0.1" });
  expect(first).not.toHaveProperty("lastReload");
  expect((await call("GET", "/api/config?against=previous")).json).toMatchObject({ lastReload: null });
  write(`${yaml}counters: { memory: 64MiB }\n`);
  expect((await call("POST", "/api/reload", { body: {} })).json).toMatchObject({ restart: ["counters.memory"] });
  const { json } = await call("GET", "/api/config");
  expect(json).toMatchObject({
    values: { counters: { memory: "32MiB" } },
    restart: [{ key: "counters.memory", inForce: "32MiB", wanted: "64MiB" }],
  });
});

test("the policies show limits of clients and names of tokens, and mask values of headers and digests", async () => {
  const digest = digestOf("secret");
  const { call } = await start(
    1,
    `
auth: { mode: tokens, tokensFile: FOLDER/tokens.txt }
policies:
  - name: own
    limit: 3
    window: 1h
    key: [token, "header:X-Key"]
    overrides: [{ token: alice, limit: 7 }, { token: ${digest}, limit: 8 }, { header: secret-key, limit: 9 }]
`,
    "tokensFile: FOLDER/admin.txt",
    { "tokens.txt": `${digest} # alice\n` },
  );
  const { json, text } = await call("GET", "/api/policies");
  expect(json).toMatchObject({
    policies: [
      {
        overrides: [
          { part: "token", value: "alice", limit: 7 },
          { part: "token", value: "***", limit: 8 },
          { part: "header", value: "***", limit: 9 },
        ],
      },
    ],
  });
  expect([digest, "secret-key"].filter((secret) => text.includes(secret))).toEqual([]);
});

test("a write that is refused is logged as well, with its status", async () => {
  const { call, gateway } = await start(1);
  for (const [method, path, body, status] of [
    ["DELETE", "/api/clients/client:nobody", undefined, 400],
    ["DELETE", "/api/clients/token:nobody", undefined, 200],
    ["DELETE", "/api/rules/nothing", undefined, 404],
    ["PUT", "/api/rules/mine", { client: "127.0.0.1", action: "block", for: "1h" }, 409],
  ] as const) {
    expect([path, (await call(method, path, body === undefined ? {} : { body })).status]).toEqual([path, status]);
    expect(logged(gateway, "admin call").at(-1)).toMatchObject({ caller: "ops", call: `${method} ${path}`, status });
  }
});

test("a token that is listed later passes, and one that is removed does not, without a reload of the rest", async () => {
  const { call, folder, gateway } = await start(1);
  const file = join(folder, "admin.txt");
  expect((await call("GET", "/api/status", { token: "later" })).status).toBe(401);
  writeFileSync(file, tokens + lineOf("later", "read", "later"));
  await eventually("it passes", async () => (await call("GET", "/api/status", { token: "later" })).status === 200);
  writeFileSync(file, `${lineOf(writeToken, "write", "ops")}no digest here\n`);
  await eventually(
    "it is refused",
    () => logged(gateway, "admin tokens file not usable, the last good version stays in use").length > 0,
  );
  expect(logged(gateway, "admin tokens file not usable, the last good version stays in use")[0]).toMatchObject({
    errors: [{ key: "admin.tokensFile", line: 2, found: "no SHA-256 digest at its beginning" }],
  });
  expect((await call("GET", "/api/status", { token: readToken })).status).toBe(200);
  writeFileSync(file, lineOf(writeToken, "write", "ops"));
  await eventually(
    "it is revoked",
    async () => (await call("GET", "/api/status", { token: readToken })).status === 401,
  );
});

test("a reload names a tokens file, hosts and another certificate; a wrong one changes nothing", async () => {
  const authority = new Authority(cleanup);
  const [one, other] = [authority.issue(), authority.issue()];
  const tls = ({ certFile, keyFile }: typeof one) => `tls: { cert: ${certFile}, key: ${keyFile} }`;
  const { call, write, gateway } = await start(1, "", tls(one));
  const ask = (headers: Record<string, string> = {}) => call("GET", "/api/status", { ca: authority.cert, headers });
  expect((await ask()).status).toBe(404);
  const old = connectTls({
    port: gateway.admin.port,
    ca: authority.cert,
    ALPNProtocols: ["http/1.0"],
    servername: "localhost",
  });
  await within("a client that names only HTTP/1.0 is served", once(old.end("GET /livez HTTP/1.0\r\n\r\n"), "data"));
  write("", `${tls(other)}, tokensFile: FOLDER/admin.txt, hosts: [admin.internal]`);
  expect(await gateway.reloadFromSource("signal")).toMatchObject({
    ok: true,
    changed: ["admin.tokensFile", "admin.hosts", "admin.tls.cert", "admin.tls.key"],
  });
  expect((await ask()).status).toBe(421);
  const { status, json } = await ask({ host: "admin.internal" });
  expect([status, json]).toEqual([200, expect.objectContaining({ adminCertificate: expect.anything() })]);
  expect(json).toMatchObject({ adminCertificate: { subject: "CN=issued-2" } });
  write("", `${tls(other)}, tokensFile: FOLDER/nowhere.txt`);
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: false });
  expect((await ask()).status).toBe(421);
  write("", `${tls(other)}, tokensFile: FOLDER/admin.txt, port: 1, socket: FOLDER/x.sock`);
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true, restart: ["admin.port", "admin.socket"] });
  expect((await ask()).status).toBe(200);
});

test("the Unix socket is private, needs no token, and is removed at the end", async () => {
  const { call, folder, gateway } = await start(1, "", "socket: FOLDER/admin.sock");
  const socketPath = join(folder, "admin.sock");
  expect(lstatSync(socketPath).isSocket()).toBe(true);
  expect(lstatSync(socketPath).mode & 0o777).toBe(0o600);
  const options = { socketPath, token: null, headers: { host: "localhost" } };
  expect((await call("GET", "/api/status", options)).status).toBe(200);
  expect((await call("POST", "/api/reload", { ...options, body: {} })).status).toBe(200);
  expect(logged(gateway, "admin call")).toMatchObject([{ caller: "socket", peer: null }]);
  expect((await call("GET", "/api/status")).status).toBe(404);
  await gateway.drain();
  expect(existsSync(socketPath)).toBe(false);
});

test("a socket on which somebody listens, and a file of another kind, are errors of the start", async () => {
  const folder = scratchFolder(cleanup);
  const socketPath = join(folder, "admin.sock");
  const other = createServer();
  await new Promise<void>((resolve) => void other.listen(socketPath, resolve));
  cleanup(() => other.close());
  await expect(start(1, "", `socket: ${socketPath}`)).rejects.toThrow("another process listens on it");
  mkdirSync(join(folder, "folder"));
  await expect(start(1, "", `socket: ${folder}/folder`)).rejects.toThrow("there is a file of another kind");
  await expect(start(1, "", `socket: ${folder}/missing/admin.sock`)).rejects.toThrow("its folder does not exist");
});
