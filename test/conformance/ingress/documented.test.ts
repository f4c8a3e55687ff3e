// Envoy, Istio and Traefik cannot be run here. What each sends is made from its shipped file by its documented rules, and
// asked of the real gateway; what its client would get is made from the answer in the same way. A shipped file that
// names a prefix, a field or an endpoint wrongly fails here; that these proxies keep to their documents is not shown.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { stageDecision } from "../../ext-auth/stage.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { expectContractFields, sentByNow } from "../../support/contract-fields.ts";
import { valuesOf } from "../../support/raw-client.ts";
import type { FramedResponse } from "../../support/raw-connection.ts";

const cleanup = useCleanup();
const peer = "192.0.2.1";

type Fields = readonly (readonly [name: string, value: string])[];

/** A client's request as the proxy has it, its own fields in lower case. */
interface ClientRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
}

interface Proxy {
  readonly name: string;
  /** The call it makes about a request. */
  readonly call: (request: ClientRequest) => ClientRequest;
  /** The names of the answer's fields that the client gets with the backend's answer. */
  readonly passesOnSuccess: (name: string) => boolean;
  readonly passesOnDenial: (name: string) => boolean;
}

function shipped<T>(file: string, shape: z.ZodType<T>): T {
  const text = readFileSync(new URL(`../../../deploy/ingress/${file}`, import.meta.url), "utf8");
  const documents = parseAllDocuments(text);
  return shape.parse("empty" in documents ? null : documents.map((document) => document.toJS()));
}

const patterns = z.object({
  patterns: z.array(
    z.union([
      z.strictObject({ exact: z.string(), ignore_case: z.literal(true) }),
      z.strictObject({ prefix: z.string(), ignore_case: z.literal(true) }),
    ]),
  ),
});
const matches =
  ({ patterns: list }: z.infer<typeof patterns>) =>
  (name: string) =>
    list.some((pattern) => ("exact" in pattern ? name === pattern.exact : name.startsWith(pattern.prefix)));

/** Envoy's ExtAuthz (api-v3): Host, method, path and Authorization always go along, Content-Length is 0. */
function envoyCall(prefix: string, isAllowed: (name: string) => boolean): Proxy["call"] {
  return ({ method, target, fields }) => ({
    method,
    target: prefix + target,
    fields: [...fields.filter(([name]) => name === "authorization" || isAllowed(name)), ["content-length", "0"]],
  });
}

/** Envoy writes these itself, whatever is allowed. */
const isOwn = (name: string): boolean => name === "content-length" || name === "date";

function envoy(): Proxy {
  const filter = z.strictObject({
    "@type": z.literal("type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"),
    transport_api_version: z.literal("V3"),
    failure_mode_allow: z.literal(false),
    status_on_error: z.strictObject({ code: z.literal("ServiceUnavailable") }),
    allowed_headers: patterns,
    http_service: z.strictObject({
      server_uri: z.strictObject({ uri: z.string(), cluster: z.literal("headgate"), timeout: z.literal("1s") }),
      path_prefix: z.string(),
      authorization_response: z.strictObject({
        allowed_client_headers: patterns,
        allowed_client_headers_on_success: patterns,
      }),
    }),
  });
  const text = JSON.stringify(shipped("envoy/envoy.yaml", z.any()));
  expect(text, "X-Forwarded-For ends with Envoy's peer only then").toContain('"use_remote_address":true');
  const [config] = shipped("envoy/envoy.yaml", z.array(z.any()));
  const [asks, routes] = config.static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters;
  expect([asks.name, routes.name]).toEqual(["envoy.filters.http.ext_authz", "envoy.filters.http.router"]);
  const { allowed_headers, http_service } = filter.parse(asks.typed_config);
  const { allowed_client_headers, allowed_client_headers_on_success } = http_service.authorization_response;
  return {
    name: "Envoy",
    call: envoyCall(http_service.path_prefix, matches(allowed_headers)),
    passesOnSuccess: matches(allowed_client_headers_on_success),
    passesOnDenial: (name) => matches(allowed_client_headers)(name) || isOwn(name),
  };
}

/** Istio's EnvoyExternalAuthorizationHttpProvider: names with a star before or behind them. */
function istio(): Proxy {
  const names = z.array(z.string());
  const provider = z.strictObject({
    service: z.string(),
    port: z.literal(9465),
    pathPrefix: z.string(),
    timeout: z.literal("1s"),
    failOpen: z.literal(false),
    statusOnError: z.literal("503"),
    includeRequestHeadersInCheck: names,
    headersToDownstreamOnAllow: names,
    headersToDownstreamOnDeny: names,
  });
  const [mesh, policy] = shipped("istio/headgate.yaml", z.array(z.any()));
  const [named] = mesh.meshConfig.extensionProviders;
  expect([policy.spec.action, policy.spec.provider.name]).toEqual(["CUSTOM", named.name]);
  const parsed = provider.parse(named.envoyExtAuthzHttp);
  const among = (list: readonly string[]) => (name: string) =>
    list.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : name === entry));
  return {
    name: "Istio",
    call: envoyCall(parsed.pathPrefix, among(parsed.includeRequestHeadersInCheck)),
    passesOnSuccess: among(parsed.headersToDownstreamOnAllow),
    passesOnDenial: (name) => among(parsed.headersToDownstreamOnDeny)(name) || isOwn(name),
  };
}

/** Traefik's ForwardAuth: a GET with the client's own fields, X-Forwarded-* set by itself unless it is to trust them. */
function traefik(): Proxy {
  const shape = z.strictObject({
    address: z.url(),
    trustForwardHeader: z.literal(false),
    authResponseHeaders: z.array(z.string()),
  });
  const [config] = shipped("traefik/dynamic.yaml", z.array(z.any()));
  expect(config.http.routers.api.middlewares).toEqual(["headgate"]);
  const { address } = shape.parse(config.http.middlewares.headgate.forwardAuth);
  const own = ["x-forwarded-for", "x-forwarded-method", "x-forwarded-uri", "x-forwarded-host", "x-forwarded-proto"];
  return {
    name: "Traefik",
    call: ({ method, target, fields }) => ({
      method: "GET",
      target: new URL(address).pathname,
      fields: [
        ...fields.filter(([name]) => !own.includes(name) && !["connection", "content-length", "host"].includes(name)),
        ["X-Forwarded-For", peer],
        ["X-Forwarded-Method", method],
        ["X-Forwarded-Proto", "http"],
        ["X-Forwarded-Host", "api.test"],
        ["X-Forwarded-Uri", target],
      ],
    }),
    passesOnSuccess: () => false,
    passesOnDenial: () => true,
  };
}

/** A client that lies in every field it can; with Envoy's X-Forwarded-For, which ends with the client's address. */
const client = (target: string, token = true): ClientRequest => ({
  method: "POST",
  target,
  fields: [
    ["content-length", "5"],
    ["x-original-uri", "/elsewhere"],
    ["x-original-method", "GET"],
    ["x-forwarded-uri", "/elsewhere"],
    ["x-forwarded-method", "GET"],
    ["forwarded", "for=203.0.113.7"],
    ["x-forwarded-for", `203.0.113.7,${peer}`],
    ...(token ? ([["authorization", "Bearer t"]] as const) : []),
  ],
});

describe.each([envoy(), istio(), traefik()])("$name, by its documents", ({ call, passesOnSuccess, passesOnDenial }) => {
  type Ask = Awaited<ReturnType<typeof stageDecision>>["ask"];
  const send = (ask: Ask, request: ClientRequest): Promise<FramedResponse> => {
    const { method, target, fields } = call(request);
    return ask(target, fields.map(([name, value]) => `${name}: ${value}\r\n`).join(""), method);
  };
  const passed = ({ rawHeaders }: FramedResponse, passes: (name: string) => boolean): string[] =>
    rawHeaders.filter((_, i) => passes(rawHeaders[i - (i % 2)]?.toLowerCase() ?? ""));

  test("100 of a client are admitted by what is not refused, and the 101st gets the exact 429", async () => {
    const { ask, gateway } = await stageDecision(cleanup);
    for (let sent = 1; sent <= 100; sent += 1) {
      const answer = await send(ask, client("/v2/x?a=b"));
      // Envoy lets nothing pass but a 200.
      expect(answer.status).toBe(200);
      if (sent > 1) continue;
      const rest = passed(answer, passesOnSuccess);
      const expected = passesOnSuccess("ratelimit-limit") ? ["100"] : [];
      for (const name of ["RateLimit-Limit", "X-RateLimit-Limit"]) expect(valuesOf(rest, name)).toEqual(expected);
      expect(valuesOf(rest, "Content-Length")).toEqual([]);
    }
    expect(gateway.logLines.find(({ source }) => source === "ext-auth")).toMatchObject({
      client: peer,
      method: "POST",
      path: "/v2/x",
    });
    const refused = await send(ask, client("/v2/x"));
    expect(refused.status).toBe(429);
    expect(refused.body).toBe(
      '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}',
    );
    const rest = passed(refused, passesOnDenial);
    expectContractFields({ rawHeaders: rest }, { limit: 100, remaining: 0 }, undefined, sentByNow());
    for (const name of ["Retry-After", "Cache-Control", "Content-Type"]) expect(valuesOf(rest, name)).toHaveLength(1);
    const names = refused.rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
    // Every field but those of the connection.
    expect(names.filter((name) => !passesOnDenial(name) && !/^(?:connection|keep-alive)$/.test(name))).toEqual([]);
  });

  test("no token is 401 with its challenge, and a path under no route 404", async () => {
    const { ask } = await stageDecision(cleanup);
    const noToken = await send(ask, client("/v2/x", false));
    expect(noToken.status).toBe(401);
    expect(valuesOf(passed(noToken, passesOnDenial), "WWW-Authenticate")).toEqual(['Bearer realm="finance"']);
    expect((await send(ask, client("/elsewhere"))).status).toBe(404);
  });

  test("a page of a listed origin passes with its preflight, and may read a refusal", async () => {
    const page = "https://app.example";
    const { ask } = await stageDecision(cleanup, {}, { cors: { origins: [page] } });
    const asking = (method: string, fields: ClientRequest["fields"]): Promise<FramedResponse> =>
      send(ask, { method, target: "/v2/x", fields: [["x-forwarded-for", peer], ["origin", page], ...fields] });
    expect((await asking("OPTIONS", [["access-control-request-method", "GET"]])).status).toBe(200);
    const refused = await asking("GET", []);
    expect(refused.status).toBe(401);
    const rest = passed(refused, passesOnDenial);
    expect(valuesOf(rest, "Access-Control-Allow-Origin")).toEqual([page]);
    for (const name of ["Access-Control-Expose-Headers", "Vary"]) expect(valuesOf(rest, name)).toHaveLength(1);
  });
});
