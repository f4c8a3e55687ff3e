// Every way in which a request can come, as a function that sends one message and reads what becomes of it.
import type { KeyPart } from "../../../src/core/policy.ts";
import type { HeadgateOptions } from "../../../src/fastify/index.ts";
import { call, openClient } from "../../ext-auth/grpc/client.ts";
import { check } from "../../ext-auth/grpc/protocol.ts";
import { startTestApp } from "../../fastify/app.ts";
import type { Authority, Issued } from "../../support/certificates.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import type { Overrides, TestGateway } from "../../support/gateway.ts";
import { FrameClient, frameTypes } from "../../support/http2-frames.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { stageHttp } from "../../support/stage.ts";
import type { ReceivedRequest } from "../../support/upstream.ts";
import type { Carrier, MessageRule } from "./rules.ts";

export interface Answer {
  /** As the client of an ingress gets it. */
  readonly status: number | "reset";
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export interface Carriers {
  readonly ask: Readonly<Record<Carrier, (rule: MessageRule, cleanup: Cleanup) => Promise<Answer>>>;
  /** By the gateway's upstream. */
  readonly received: readonly ReceivedRequest[];
  readonly gateway: TestGateway;
  /** Lines of the plugin's access log over HTTP/2. */
  readonly pluginLines: readonly Record<string, unknown>[];
}

export const limit = 10_000;
const loopback = { host: "127.0.0.1", port: 0, maxConnections: 100 };

/** One gateway with all its ports, and an app for each version of HTTP. `more`: keys that all of them have. */
export async function openCarriers(
  cleanup: Cleanup,
  { cert: ca }: Authority,
  issued: Issued,
  more: Pick<Overrides, "clientAddress" | "policies"> & Pick<HeadgateOptions, "clientAddress"> = {},
): Promise<Carriers> {
  const { clientAddress = {}, policies = [slidingPolicy({ limit, windowMs: 60_000 })] } = more;
  const { gateway, upstream } = await stageHttp(cleanup, undefined, {
    policies,
    clientAddress,
    listen: { tls: { cert: issued.certFile, key: issued.keyFile, clientCa: null, http2: true } },
    extAuth: { http: loopback, grpc: loopback, trustedCallers: ["127.0.0.1"] },
    refusals: { perSecond: 1, burst: limit },
  });
  const options = {
    routes: ["/v2/"],
    policies: policies.map(({ name, key }) => ({ name, key: key.map(keyText), limit, window: "60s" })),
    clientAddress,
    refusals: { perSecond: 1, burst: limit },
  };
  const routes: Parameters<typeof startTestApp>[1] & object = {
    options,
    routes: (app) => void app.setNotFoundHandler((_request, reply) => reply.code(200).send("ok")),
  };
  const plugin = await startTestApp(cleanup, routes);
  const server = { http2: true, https: { key: issued.key, cert: issued.cert } } as object;
  const plugin2 = await startTestApp(cleanup, { ...routes, server });
  const grpc = openClient(cleanup, gateway.grpc?.port ?? 0);
  const extAuth = gateway.extAuth?.port ?? 0;
  return {
    gateway,
    received: upstream.received,
    pluginLines: plugin2.lines,
    ask: {
      "HTTP/1.1": (rule, cleanup) => askHttp1(gateway.traffic.port, rule, { tls: { ca } }, cleanup),
      "HTTP/2": (rule, cleanup) => askHttp2(gateway.traffic.port, rule, ca, cleanup),
      "auth-request": (rule, cleanup) => {
        const { method = "GET", target = "/v2/x" } = rule;
        const named = [
          ["X-Original-Method", method],
          ["X-Original-URI", target],
        ] as const;
        const fields = [...named, ["X-Forwarded-For", "192.0.2.1"], ...fieldsOf(rule)] as const;
        return askCall(extAuth, { ...rule, method: "GET", target: "/auth-request", fields }, cleanup);
      },
      "ext-authz": (rule, cleanup) => {
        const { method = "GET", target = "/v2/x" } = rule;
        const fields = [["X-Forwarded-For", "192.0.2.2"], ...fieldsOf(rule)] as const;
        const inCall = target.startsWith("/") ? `/ext-authz${target}` : target;
        return askCall(extAuth, { ...rule, method, target: inCall, fields }, cleanup);
      },
      gRPC: (rule) => askGrpc(grpc, rule),
      plugin: (rule, cleanup) => askHttp1(plugin.port, rule, {}, cleanup),
      "plugin over HTTP/2": (rule, cleanup) => askHttp2(plugin2.port, rule, ca, cleanup),
    },
  };
}

/** As in the options of the plugin. */
const keyText = (part: KeyPart): string => ("name" in part ? `${part.kind}:${part.name}` : part.kind);

const fieldsOf = ({ fields = [] }: MessageRule): readonly (readonly [string, string])[] =>
  fields.some(([name]) => name === "authorization") ? fields : [["authorization", "Bearer t"], ...fields];

async function askHttp1(
  port: number,
  rule: MessageRule,
  options: ConstructorParameters<typeof RawConnection>[1],
  cleanup: Cleanup,
): Promise<Answer> {
  const client = new RawConnection(port, options);
  cleanup(() => client.destroy());
  const { method = "GET", target = "/v2/x", hosts = ["api.test"] } = rule;
  const fields = [...hosts.map((host) => ["Host", host]), ...fieldsOf(rule)];
  client.write(
    `${method} ${target} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`,
  );
  return await client.read({ method });
}

/** The status that the client of the ingress gets. */
async function askCall(port: number, rule: MessageRule, cleanup: Cleanup): Promise<Answer> {
  const { status, rawHeaders, body } = await askHttp1(port, rule, {}, cleanup);
  const [meant] = valuesOf(rawHeaders, "X-Headgate-Status");
  return { status: meant === undefined ? status : Number(meant), rawHeaders, body };
}

async function askHttp2(port: number, rule: MessageRule, ca: string, cleanup: Cleanup): Promise<Answer> {
  const client = new FrameClient(port, { ca }, cleanup);
  const { method = "GET", target = "/v2/x", scheme = "https", hosts = ["api.test"] } = rule;
  const line = [
    [":scheme", scheme],
    [":path", target],
  ] as const;
  const [authority, ...others] = hosts;
  client.headers(1, [
    [":method", method],
    ...(method === "CONNECT" ? [] : line),
    ...(authority === undefined ? [] : [[":authority", authority] as const]),
    ...others.map((host) => ["host", host] as const),
    ...fieldsOf(rule),
  ]);
  const end = await client.ended(1);
  if (end !== "whole") return { status: end === protocolError ? "reset" : (end ?? 0), rawHeaders: [], body: "" };
  const [, status, ...rawHeaders] = client.headOf(1);
  const body = client.of(frameTypes.data, 1).map(({ payload }) => payload.toString("latin1"));
  return { status: Number(status), rawHeaders, body: body.join("") };
}

const protocolError = 1;

async function askGrpc(client: ReturnType<typeof openClient>, rule: MessageRule): Promise<Answer> {
  const { method = "GET", target: path = "/v2/x", hosts: [host = ""] = ["api.test"] } = rule;
  const headers = Object.fromEntries(fieldsOf(rule));
  const source = { address: { socket_address: { address: "192.0.2.3", port_value: 34_512 } } };
  const request = { attributes: { source, request: { http: { method, path, host, headers } } } };
  const { message } = await call<CheckResponse>(client, check, request);
  const { denied_response: denied, ok_response: admitted } = message ?? {};
  const options = denied?.headers ?? admitted?.response_headers_to_add ?? [];
  const rawHeaders = options.flatMap(({ header: { key, value } }) => [key, value]);
  const [meant] = valuesOf(rawHeaders, "X-Headgate-Status");
  return { status: denied ? Number(meant ?? denied.status.code) : 200, rawHeaders, body: denied?.body ?? "" };
}

interface CheckResponse {
  readonly denied_response: {
    readonly status: { readonly code: number };
    readonly headers: Option[];
    readonly body: string;
  } | null;
  readonly ok_response: { readonly response_headers_to_add: Option[] } | null;
}

interface Option {
  readonly header: { readonly key: string; readonly value: string };
}
