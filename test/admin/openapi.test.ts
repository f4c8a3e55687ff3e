// The OpenAPI document: valid by an independent validator, complete, strict, and good enough to make a client of it. Every
// answer fits the schema that the document gives it.
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { z } from "zod";
import { useCleanup } from "../support/cleanup.ts";
import { testSettings } from "../support/gateway.ts";
import { type ApiStage, type Call, stageApi } from "./api-stage.ts";
import { fakePlane, ruleBook } from "./fake-plane.ts";

const cleanup = useCleanup();

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: object;
  }[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema: object }> };
  readonly responses: Record<string, { readonly content?: Record<string, { readonly schema: object }> }>;
}

interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
}

async function start(): Promise<{ stage: ApiStage; document: Document }> {
  const { rules } = await ruleBook(testSettings("http://127.0.0.1:9"));
  const stage = await stageApi(cleanup, fakePlane({ rules }));
  const document = (await stage.call("GET", "/api/openapi.json")).json as Document;
  return { stage, document };
}

test("is valid by an independent validator, and names every call", async () => {
  const { document } = await start();
  const result = await new Validator().validate(structuredClone(document) as unknown as Record<string, unknown>);
  expect(result).toMatchObject({ valid: true });
  expect(document.openapi).toBe("3.1.0");
  const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(calls.sort()).toEqual([
    "DELETE /api/clients/{key}",
    "DELETE /api/rules/{id}",
    "GET /api/clients",
    "GET /api/clients/{key}",
    "GET /api/config",
    "GET /api/events",
    "GET /api/history",
    "GET /api/openapi.json",
    "GET /api/policies",
    "GET /api/policies/history",
    "GET /api/refusals",
    "GET /api/requests/{id}",
    "GET /api/rules",
    "GET /api/rules/{id}",
    "GET /api/status",
    "POST /api/check",
    "POST /api/drain",
    "POST /api/reload",
    "POST /api/reload/confirm",
    "POST /api/reload/take-back",
    "PUT /api/rules/{id}",
  ]);
});

test("no object of a body or an answer has keys that the document does not name", async () => {
  const { document } = await start();
  const open: string[] = [];
  const visit = (schema: unknown, place: string): void => {
    if (Array.isArray(schema)) schema.forEach((each, i) => void visit(each, `${place}/${i}`));
    if (typeof schema !== "object" || schema === null) return;
    const { type, additionalProperties } = schema as { type?: unknown; additionalProperties?: unknown };
    if (type === "object" && additionalProperties === undefined) open.push(place);
    for (const [key, each] of Object.entries(schema)) visit(each, `${place}/${key}`);
  };
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      for (const [status, answer] of Object.entries(operation.responses))
        visit(answer.content, `${method} ${path} ${status}`);
      visit(operation.requestBody?.content, `${method} ${path} body`);
    }
  }
  // The document itself, which others define.
  expect(open).toEqual(["get /api/openapi.json 200/application/json/schema"]);
});

/** A client that knows the document alone: it sends what the document allows, and refuses answers that it does not. */
function createClient({ paths }: Document, stage: ApiStage) {
  return async (id: string, given: Readonly<Record<string, string>> = {}, body?: unknown) => {
    const [path = "", method = "", operation] = find(paths, id);
    const { parameters = [], requestBody, responses } = operation;
    let url = path;
    const query = new URLSearchParams();
    const headers: Record<string, string> = {};
    for (const { name, in: place, required = false } of parameters) {
      const value = given[name];
      if (value === undefined) expect([id, name, required]).toEqual([id, name, false]);
      else if (place === "path") url = url.replace(`{${name}}`, encodeURIComponent(value));
      else if (place === "query") query.set(name, value);
      else headers[name] = value;
    }
    const known = parameters.map(({ name }) => name);
    expect(Object.keys(given).filter((name) => !known.includes(name))).toEqual([]);
    if (requestBody !== undefined) expectFit(requestBody.content["application/json"]?.schema, body, `${id} body`);
    const search = query.size === 0 ? "" : `?${query}`;
    const call: Call = { headers, ...(requestBody === undefined ? {} : { body }) };
    const answer = await stage.call(method.toUpperCase(), `${url}${search}`, call);
    const schema = responses[`${answer.status}`]?.content?.["application/json"]?.schema;
    expectFit(schema, answer.json, `${id} ${answer.status}`);
    return answer;
  };
}

function find(paths: Document["paths"], id: string): [path: string, method: string, Operation] {
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.operationId === id) return [path, method, operation];
    }
  }
  throw new Error(`the document has no operation ${id}`);
}

function expectFit(schema: object | undefined, value: unknown, what: string): void {
  expect([what, typeof schema]).toEqual([what, "object"]);
  const { error } = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value);
  expect([what, error?.issues ?? null]).toEqual([what, null]);
}

test("a client that is made of the document can make every call, and every answer fits it", async () => {
  const { stage, document } = await start();
  const client = createClient(document, stage);
  const statuses: [string, number][] = [];
  const run = async (...args: Parameters<typeof client>) => {
    const answer = await client(...args);
    statuses.push([args[0], answer.status]);
    return answer;
  };
  for (const id of ["getOpenApi", "getStatus", "getPolicies", "getPolicyHistory", "getHistory", "getRules"])
    await run(id);
  await run("getConfig", { against: "previous" });
  await run("getConfig");
  await run("getClients", { policy: "default", sort: "recent", search: "a", limit: "7" });
  await run("getClient", { key: "client:203.0.113.7" });
  await run("getClient", { key: "token:nobody" });
  await run("forgiveClient", { key: "client:203.0.113.7" });
  await run("getRequest", { id: "abc" });
  await run("getRequest", { id: "abd" });
  await run("getRefusals", { key: "token:alice", limit: "200" });
  const request = { method: "GET", target: "/v2/me", client: "203.0.113.7", headers: { Authorization: "Bearer x" } };
  await run("check", {}, request);
  const rule = { client: "203.0.113.7", action: "exempt", for: "90s", note: "a friend" };
  const { headers } = await run("putRule", { id: "a", "if-none-match": "*" }, rule);
  await run("putRule", { id: "a", "if-match": String(headers["etag"]) }, { ...rule, force: true });
  await run("putRule", { id: "a", "if-match": '"77"' }, rule);
  await run("putRule", { id: "b" }, { ...rule, client: "127.0.0.0/8" });
  await run("getRule", { id: "a" });
  await run("getRules");
  await run("deleteRule", { id: "a" });
  await run("deleteRule", { id: "a" });
  await run("reload", {}, {});
  await run("reload", {}, { confirmWithin: "5m", unconfirmed: "keep" });
  await run("confirmReload", {}, {});
  await run("takeBackReload", {}, {});
  await run("drain", {}, {});
  expect(statuses.filter(([, status]) => status !== 200)).toEqual([
    ["getClient", 404],
    ["getRequest", 404],
    ["putRule", 201],
    ["putRule", 412],
    ["putRule", 409],
    ["deleteRule", 404],
    ["drain", 202],
  ]);
  const called = new Set(statuses.map(([id]) => id));
  const ids = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  );
  expect(ids.filter((id) => !called.has(id))).toEqual(["getEvents"]);
});
