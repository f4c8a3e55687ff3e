// Every way in which a request can come, as a function that sends one message and reads what becomes of it: to one gateway with
// all its ports, and to an app with the plugin for each version of HTTP, all with the same policies.
import type { Clock } from "../../src/core/clock.ts";
import type { KeyPart, Policy } from "../../src/core/policy.ts";
import { type HeadgateOptions, serverOptions } from "../../src/fastify/index.ts";
import type { Carrier } from "../conformance/messages/rules.ts";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { check } from "../ext-auth/grpc/protocol.ts";
import { startTestApp, type TestAppOptions } from "../fastify/app.ts";
import type { Cleanup } from "./cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway } from "./gateway.ts";
import { FrameClient, frameTypes } from "./http2-frames.ts";
import { slidingPolicy } from "./policy.ts";
import { valuesOf } from "./raw-client.ts";
import { RawConnection } from "./raw-connection.ts";
import type { TlsListener } from "./tls-listener.ts";
import { type ReceivedRequest, startUpstream } from "./upstream.ts";

/** One message. */
export interface Asked {
  /** GET. */
  readonly method?: string;
  /** /v2/x. */
  readonly target?: string;
  /** Of HTTP/2: https. */
  readonly scheme?: string;
  /** One: api.test. */
  readonly hosts?: readonly string[];
  /** Beside the token, unless one is among them. */
  readonly fields?: readonly (readonly [name: string, value: string])[];
  /** Default: one that is not listed. Null: none. */
  readonly token?: string | null;
  /** Whom a trusted proxy or an ingress names. Default: the peer, or an address for each kind of check. */
  readonly client?: string;
}

export interface Answer {
  /** As the client of an ingress gets it. */
  readonly status: number | "reset";
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export interface Carriers {
  readonly ask: Readonly<Record<Carrier | "forward-auth", (asked: Asked, cleanup: Cleanup) => Promise<Answer>>>;
  /** By the gateway's upstream. */
  readonly received: readonly ReceivedRequest[];
  readonly gateway: TestGateway;
  /** Lines of the plugin's access log over HTTP/2. */
  readonly pluginLines: readonly Record<string, unknown>[];
}

export interface CarriersOptions {
  readonly overrides?: Overrides;
  /** Beside the routes and policies, or in their place. Null: no app is started. */
  readonly plugin?: HeadgateOptions | null;
  /** Of the server of an app. */
  readonly maxHeaderBytes?: number;
  readonly clock?: Clock;
}

export const limit = 10_000;
const loopback = { host: "127.0.0.1", port: 0, maxConnections: 100 };

export async function openCarriers(
  cleanup: Cleanup,
  { ca, issued, overrides: { listen = {} } }: TlsListener,
  { overrides = {}, plugin: more = {}, maxHeaderBytes, clock }: CarriersOptions = {},
): Promise<Carriers> {
  const { policies = [slidingPolicy({ limit, windowMs: 60_000 })] } = overrides;
  const refusals = { perSecond: 1, burst: limit };
  const upstream = cleanup(await startUpstream());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      ...{ refusals, drain: { timeoutMs: 0 } },
      ...overrides,
      ...{ policies, listen: { ...overrides.listen, ...listen } },
      extAuth: { http: loopback, grpc: loopback, trustedCallers: ["127.0.0.1"], ...overrides.extAuth },
    },
    ...(clock === undefined ? {} : { clock }),
  });
  cleanup(() => gateway.close());
  const asked = { gateway, received: upstream.received };
  if (more === null) return { ...asked, pluginLines: [], ask: { ...askGateway(gateway, ca, cleanup), ...noApps } };
  const server = maxHeaderBytes === undefined ? {} : serverOptions({ maxHeaderBytes });
  const test: TestAppOptions = {
    options: { routes: ["/v2/"], policies: policies.map(policyOptions), refusals, ...more },
    routes: (app) => void app.setNotFoundHandler((_request, reply) => reply.code(200).send("ok")),
    ...(clock === undefined ? {} : { clock }),
  };
  const plugin = await startTestApp(cleanup, { ...test, server });
  const http2 = { ...server, http2: true, https: { key: issued.key, cert: issued.cert } } as object;
  const plugin2 = await startTestApp(cleanup, { ...test, server: http2 });
  const ask = { ...askGateway(gateway, ca, cleanup), ...askApps(plugin.port, plugin2.port, ca) };
  return { ...asked, pluginLines: plugin2.lines, ask };
}

const none = (): never => {
  throw new Error("no app was started");
};
const noApps = { plugin: none, "plugin over HTTP/2": none };

function askGateway({ traffic, extAuth, grpc }: TestGateway, ca: string, cleanup: Cleanup) {
  const client = openClient(cleanup, grpc?.port ?? 0);
  /** A call whose fields name the request. */
  const askNamed = (asked: Asked, path: string, prefix: string, uri: string, cleanup: Cleanup): Promise<Answer> => {
    const { method = "GET", target = "/v2/x" } = asked;
    const named = [
      [`${prefix}-Method`, method],
      [`${prefix}-${uri}`, target],
    ] as const;
    const fields = [...named, ...fieldsOf({ client: "192.0.2.1", ...asked })] as const;
    return askCall(extAuth?.port ?? 0, { ...withoutClient(asked), method: "GET", target: path, fields }, cleanup);
  };
  return {
    "HTTP/1.1": (asked, cleanup) => askHttp1(traffic.port, asked, { tls: { ca } }, cleanup),
    "HTTP/2": (asked, cleanup) => askHttp2(traffic.port, asked, ca, cleanup),
    "auth-request": (asked, cleanup) => askNamed(asked, "/auth-request", "X-Original", "URI", cleanup),
    "forward-auth": (asked, cleanup) => askNamed(asked, "/forward-auth", "X-Forwarded", "Uri", cleanup),
    "ext-authz": (asked, cleanup) => {
      const { target = "/v2/x" } = asked;
      const inCall = target.startsWith("/") ? `/ext-authz${target}` : target;
      return askCall(extAuth?.port ?? 0, { client: "192.0.2.2", ...asked, target: inCall }, cleanup);
    },
    gRPC: (asked) => askGrpc(client, asked),
  } satisfies Partial<Carriers["ask"]>;
}

function askApps(port: number, portOfHttp2: number, ca: string) {
  return {
    plugin: (asked, cleanup) => askHttp1(port, asked, {}, cleanup),
    "plugin over HTTP/2": (asked, cleanup) => askHttp2(portOfHttp2, asked, ca, cleanup),
  } satisfies Partial<Carriers["ask"]>;
}

/** As in the options of the plugin. */
function policyOptions({ name, key, limit, rate }: Policy): NonNullable<HeadgateOptions["policies"]>[number] {
  return { name, key: key.map(keyText), limit, window: `${rate.kind === "sliding" ? rate.windowMs : 0}ms` };
}

const keyText = (part: KeyPart): string => ("name" in part ? `${part.kind}:${part.name}` : part.kind);

/** Its fields say all of it. */
const withoutClient = ({ client: _, ...asked }: Asked): Asked => ({ ...asked, token: null });

function fieldsOf({ fields = [], token = "t", client }: Asked): readonly (readonly [string, string])[] {
  const isGiven = token === null || fields.some(([name]) => name === "authorization");
  return [
    ...(client === undefined ? [] : [["x-forwarded-for", client] as const]),
    ...(isGiven ? [] : [["authorization", `Bearer ${token}`] as const]),
    ...fields,
  ];
}

async function askHttp1(
  port: number,
  asked: Asked,
  options: ConstructorParameters<typeof RawConnection>[1],
  cleanup: Cleanup,
): Promise<Answer> {
  const client = cleanup(new RawConnection(port, options));
  const { method = "GET", target = "/v2/x", hosts = ["api.test"] } = asked;
  const fields = [...hosts.map((host) => ["Host", host]), ...fieldsOf(asked)];
  client.write(
    `${method} ${target} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`,
  );
  const answer = await client.read({ method });
  // Callers have a bound on their connections.
  client.destroy();
  return answer;
}

/** The status that the client of the ingress gets. */
async function askCall(port: number, asked: Asked, cleanup: Cleanup): Promise<Answer> {
  const { status, rawHeaders, body } = await askHttp1(port, asked, {}, cleanup);
  const [meant] = valuesOf(rawHeaders, "X-Headgate-Status");
  return { status: meant === undefined ? status : Number(meant), rawHeaders, body };
}

async function askHttp2(port: number, asked: Asked, ca: string, cleanup: Cleanup): Promise<Answer> {
  const client = new FrameClient(port, { ca }, cleanup);
  const { method = "GET", target = "/v2/x", scheme = "https", hosts = ["api.test"] } = asked;
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
    ...fieldsOf(asked),
  ]);
  const end = await client.ended(1);
  if (end !== "whole") return { status: end === protocolError ? "reset" : (end ?? 0), rawHeaders: [], body: "" };
  client.socket.destroy();
  const [, status, ...rawHeaders] = client.headOf(1);
  const body = client.of(frameTypes.data, 1).map(({ payload }) => payload.toString("latin1"));
  return { status: Number(status), rawHeaders, body: body.join("") };
}

const protocolError = 1;

async function askGrpc(client: ReturnType<typeof openClient>, asked: Asked): Promise<Answer> {
  const { method = "GET", target: path = "/v2/x", hosts: [host = ""] = ["api.test"] } = asked;
  const { client: address = "192.0.2.3", ...named } = asked;
  const headers = Object.fromEntries(fieldsOf(named));
  const source = { address: { socket_address: { address, port_value: 34_512 } } };
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
