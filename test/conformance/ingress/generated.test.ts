// Ingresses that are configured by annotations and resources: what each makes of its shipped file, by its own template or
// source, and for a client that lies in every field which the ingress leaves in. None of them can be run here, but for the
// location of ingress-nginx: see ingress-nginx.programs.ts.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { type DecisionStage, stageDecision } from "../../ext-auth/stage.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { expectContractFields, sentByNow } from "../../support/contract-fields.ts";
import { valuesOf } from "../../support/raw-client.ts";
import type { FramedResponse } from "../../support/raw-connection.ts";

const cleanup = useCleanup();
const peer = "192.0.2.1";

type Fields = readonly (readonly [name: string, value: string])[];

/** A client's request, and the check that is made of it. */
interface Message {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
}

interface Generated {
  readonly name: string;
  readonly call: (request: Message) => Message;
  /** Whether the client gets a field of a refusal. */
  readonly passesOnDenial: (name: string) => boolean;
}

function shipped<T>(file: string, shape: z.ZodType<T>): T {
  return shape.parse(parse(readFileSync(new URL(`../../../deploy/ingress/${file}`, import.meta.url), "utf8")));
}

const annotated = z.object({ metadata: z.object({ annotations: z.record(z.string(), z.string()) }) });
const annotationsOf = (file: string) => shipped(file, annotated).metadata.annotations;

/** `set`: overwrites what the client sent under these names. */
const withSet = (fields: Fields, set: Fields): Fields => {
  const names = set.map(([name]) => name.toLowerCase());
  return [...fields.filter(([name]) => !names.includes(name)), ...set];
};

/** nginx.tmpl: the client's own fields, and these set; X-Original-URI only with auth-method. */
function ingressNginx(method: string | undefined): Generated {
  const annotations = annotationsOf("ingress-nginx/ingress.yaml");
  expect(annotations["nginx.ingress.kubernetes.io/auth-method"]).toBe("GET");
  const { pathname } = new URL(annotations["nginx.ingress.kubernetes.io/auth-url"] ?? "");
  return {
    name: `ingress-nginx ${method === undefined ? "without" : "with"} auth-method`,
    call: (request) => ({
      method: "GET",
      target: pathname,
      fields: withSet(request.fields, [
        ["X-Original-URL", `https://api.example.com${request.target}`],
        ["X-Original-Method", request.method],
        ["X-Sent-From", "nginx-ingress-controller"],
        ["X-Real-IP", peer],
        ["X-Forwarded-For", peer],
        ["X-Auth-Request-Redirect", request.target],
        ...(method === undefined ? [] : ([["X-Original-URI", request.target]] as const)),
      ]),
    }),
    passesOnDenial: (name) => name === "www-authenticate",
  };
}

/** auth-request.lua after the snippet's lines: all fields but Content-Length and Host. */
function haproxyIngress(): Generated {
  const annotations = annotationsOf("haproxy-ingress/ingress.yaml");
  const of = (name: string): string => annotations[`haproxy-ingress.github.io/${name}`] ?? "";
  expect(of("auth-headers-succeed")).toBe("-");
  const lines = of("config-backend-early").trim().split("\n");
  return {
    name: "haproxy-ingress",
    call: (request) => {
      const fetches: Record<string, string> = {
        "%[method]": request.method,
        "%[pathq]": request.target,
        "%[src]": peer,
      };
      let { fields } = request;
      for (const line of lines) {
        const [, verb, name = "", value = ""] = /^http-request (set|del)-header (\S+)(?: (\S+))?$/.exec(line) ?? [];
        expect(verb === "del" || fetches[value], line).toBeTruthy();
        fields = fields.filter(([each]) => each !== name.toLowerCase());
        if (verb === "set") fields = [...fields, [name, fetches[value] ?? ""]];
      }
      return {
        method: "GET",
        target: new URL(of("auth-url").replace("svc:", "http:")).pathname,
        fields: fields.filter(([name]) => name !== "content-length"),
      };
    },
    passesOnDenial: () => true,
  };
}

/** forward.go with trustForwardHeader unset, and snippet.go for the annotations of ingress-nginx: both set these. */
function traefik(): Generated {
  return {
    name: "Traefik's Middleware without trustForwardHeader, and its provider for the annotations of ingress-nginx",
    call: ({ method, target, fields }) => ({
      method: "GET",
      target: "/forward-auth",
      fields: withSet(
        fields.filter(([name]) => name !== "content-length"),
        [
          ["X-Forwarded-For", peer],
          ["X-Forwarded-Proto", "https"],
          ["X-Forwarded-Method", method],
          ["X-Forwarded-Host", "api.example.com"],
          ["X-Forwarded-Uri", target],
        ],
      ),
    }),
    passesOnDenial: () => true,
  };
}

/** forward-auth.lua: these, and the listed fields of the client that are not among them. */
function apisix(): Generated {
  const names = z.array(z.string());
  const plugin = z.strictObject({
    uri: z.string(),
    timeout: z.number(),
    allow_degradation: z.literal(false),
    status_on_error: z.literal(503),
    request_headers: names,
    client_headers: names,
  });
  const route = z.object({ plugins: z.strictObject({ "forward-auth": plugin }) });
  const [only] = shipped("apisix/apisix.yaml", z.object({ routes: z.tuple([route]) })).routes;
  const { uri, request_headers, client_headers } = only.plugins["forward-auth"];
  expect(request_headers.filter((name) => /^x-(?:forwarded|original)/i.test(name))).toEqual([]);
  const among = (list: readonly string[]) => (name: string) => list.some((each) => each.toLowerCase() === name);
  return {
    name: "APISIX",
    call: ({ method, target, fields }) => ({
      method: "GET",
      target: new URL(uri).pathname,
      fields: [
        ["X-Forwarded-Proto", "https"],
        ["X-Forwarded-Method", method],
        ["X-Forwarded-Host", "api.example.com"],
        ["X-Forwarded-Uri", target],
        ["X-Forwarded-For", peer],
        ...fields.filter(([name]) => among(request_headers)(name)),
      ],
    }),
    passesOnDenial: (name) => among(client_headers)(name) || name === "content-length" || name === "date",
  };
}

/** extauth.go of Envoy Gateway and listener.go of Contour: path and X-Forwarded-For as the page says; Envoy adds its peer. */
function envoyResources(): Generated {
  return {
    name: "Envoy Gateway and Contour over HTTP",
    call: ({ method, target, fields }) => ({
      method,
      target: `/ext-authz${target}`,
      fields: [
        ...fields.filter(([name]) => name === "authorization"),
        ["content-length", "0"],
        ["x-forwarded-for", `203.0.113.7,${peer}`],
      ],
    }),
    // Since Envoy 1.37.0, and there is no key for it.
    passesOnDenial: (name) => name === "content-length" || name === "date",
  };
}

const all = [ingressNginx(undefined), ingressNginx("GET"), haproxyIngress(), traefik(), apisix(), envoyResources()];

/** A client that lies; `uri`: what it says in X-Original-URI, which ingress-nginx passes on without auth-method. */
const client = (uri: string): Message => ({
  method: "POST",
  target: "/v2/me?x=1",
  fields: [
    ["content-length", "5"],
    ["x-original-url", "http://a/elsewhere"],
    ["x-original-uri", uri],
    ["x-original-method", "GET"],
    ["x-forwarded-uri", "/elsewhere"],
    ["x-forwarded-method", "GET"],
    ["x-forwarded-for", "203.0.113.7"],
    ["forwarded", "for=203.0.113.7"],
    ["x-real-ip", "203.0.113.7"],
    ["authorization", "Bearer t"],
  ],
});

describe.each(all)("$name, by its template", ({ name, call, passesOnDenial }) => {
  const send = ({ ask }: DecisionStage, request: Message): Promise<FramedResponse> => {
    const { method, target, fields } = call(request);
    return ask(target, fields.map(([each, value]) => `${each}: ${value}\r\n`).join(""), method);
  };

  test("each request is decided for its own method, target and client, whatever the client says", async () => {
    const stage = await stageDecision(cleanup);
    expectContractFields(
      await send(stage, client("/v2/me?x=1")),
      { limit: 100, remaining: 99 },
      undefined,
      sentByNow(),
    );
    const lying = await send(stage, client("/elsewhere"));
    // Then the client is refused: it has named another target than the ingress.
    expect(lying.status).toBe(name === "ingress-nginx without auth-method" ? 400 : 200);
    const lines = stage.gateway.logLines.filter(({ source, status }) => source === "ext-auth" && status === 200);
    for (const line of lines) expect(line).toMatchObject({ client: peer, method: "POST", path: "/v2/me" });
    // And what the client gets of a refusal is what the pages say.
    const noRoute = await send(stage, { ...client("/elsewhere"), target: "/elsewhere" });
    expect(noRoute.status).toBe(404);
    const passed = noRoute.rawHeaders.filter((_, i) =>
      passesOnDenial(noRoute.rawHeaders[i - (i % 2)]?.toLowerCase() ?? ""),
    );
    const has = ["haproxy-ingress", "APISIX"].includes(name) || name.startsWith("Traefik");
    expect(valuesOf(passed, "RateLimit-Limit")).toEqual(has ? ["100"] : []);
    expect(valuesOf(passed, "X-Headgate-Status")).toEqual(has ? ["404"] : []);
  });
});
