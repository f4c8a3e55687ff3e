// Every way a request with or without a token can come: the traffic port over HTTP/1.1 and HTTP/2, an ingress' checks over
// HTTP and gRPC, and the Fastify plugin, all with the same rules and policies. Each request names its client.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, Client as GrpcClient } from "@grpc/grpc-js";
import { fastify } from "fastify";
import { parse } from "yaml";
import { loadSettings } from "../../src/config/load.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { Settings } from "../../src/core/settings.ts";
import { serverOptions } from "../../src/fastify/index.ts";
import type { HeadgateOptions } from "../../src/fastify/options.ts";
import { createPlugin } from "../../src/fastify/plugin.ts";
import { check } from "../ext-auth/grpc/protocol.ts";
import { checkRequest } from "../ext-auth/grpc/requests.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import type { TlsListener } from "../support/tls-listener.ts";
import { startUpstream } from "../support/upstream.ts";

export interface TokenAsk {
  readonly client: string;
  readonly method?: string;
  readonly path?: string;
  /** Null: no Authorization. */
  readonly token: string | null;
}

export interface TokenAnswer {
  readonly status: number;
  /** In lower case. */
  readonly fields: ReadonlyMap<string, string>;
}

export interface TokenCarrier {
  readonly name: string;
  ask(asked: TokenAsk): Promise<TokenAnswer>;
}

export interface TokenStage {
  readonly carriers: readonly TokenCarrier[];
  readonly gateway: TestGateway;
  readonly settings: Settings;
}

export interface StageOptions {
  readonly tls: TlsListener;
  /** Keys that the gateway and the plugin have in common. */
  readonly yaml: string;
  /** The lines of the tokens file. */
  readonly tokens: readonly string[];
  readonly clock?: Clock;
  readonly workers?: number;
  readonly counters?: Partial<Settings["counters"]>;
  /** Default: without the plugin. */
  readonly withPlugin?: boolean;
  /** Of the gateway. The plugin always leaves such requests to the app. */
  readonly unmatched?: Settings["unmatched"];
  /** Default: `/v1/` and `/v2/`. */
  readonly routes?: readonly string[];
}

export async function stageTokens(cleanup: Cleanup, options: StageOptions): Promise<TokenStage> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-tokens-"));
  cleanup(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "tokens.txt"), `${options.tokens.join("\n")}\n`);
  writeFileSync(join(folder, "c.yaml"), options.yaml);
  const loaded = loadSettings({ file: join(folder, "c.yaml"), env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  const { auth, policies, fields, refusals, log, maxHeaderBytes, maxTargetBytes } = loaded.settings;
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const trusted = { trustedProxies: ["127.0.0.1"], header: "x-forwarded-for", ipv6Prefix: 64 } as const;
  const port = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      ...{ auth, policies, fields, refusals, log, maxHeaderBytes, maxTargetBytes },
      ...{ clientAddress: trusted, drain: { timeoutMs: 0 } },
      ...options.tls.overrides,
      extAuth: { http: port, grpc: port, trustedCallers: ["127.0.0.1"] },
      ...(options.workers === undefined ? {} : { workers: options.workers }),
      ...(options.unmatched === undefined ? {} : { unmatched: options.unmatched }),
      ...(options.routes === undefined ? {} : { routes: options.routes }),
      ...(options.counters === undefined ? {} : { counters: options.counters }),
    },
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  cleanup(() => gateway.close());
  const carriers = [
    overHttp1(gateway, options.tls),
    overHttp2(gateway, options.tls, cleanup),
    overCheckHttp(gateway),
    overCheckGrpc(gateway, cleanup),
    ...(options.withPlugin === true ? [await inPlugin(cleanup, options, folder, maxHeaderBytes)] : []),
  ];
  return { carriers, gateway, settings: loaded.settings };
}

const bearer = (token: string | null): Record<string, string> =>
  token === null ? {} : { authorization: `Bearer ${token}` };

function overHttp1({ traffic }: TestGateway, { ca }: TlsListener): TokenCarrier {
  const target = { host: "127.0.0.1", servername: "localhost", port: traffic.port, ca };
  return { name: "HTTP/1.1", ask: askWith(httpsRequest, target) };
}

/** Sends the path as it is, which fetch does not: it resolves dots. */
function askWith(send: typeof httpsRequest, target: RequestOptions): TokenCarrier["ask"] {
  return ({ client, method = "GET", path = "/v1/x", token }) =>
    new Promise((resolve, reject) => {
      const headers = { host: "localhost", "x-forwarded-for": client, ...bearer(token) };
      const request = send({ ...target, method, path, headers, agent: false }, (response) => {
        response.resume().on("end", () => {
          const { statusCode: status = 0, rawHeaders } = response;
          resolve({ status, fields: fieldsOf(rawHeaders) });
        });
      });
      request.on("error", reject).end();
    });
}

function overHttp2({ traffic }: TestGateway, { ca }: TlsListener, cleanup: Cleanup): TokenCarrier {
  let session: Http2Client | null = null;
  const ask = async ({ client, method = "GET", path = "/v1/x", token }: TokenAsk): Promise<TokenAnswer> => {
    if (session === null || session.session.closed || session.session.destroyed) {
      session = new Http2Client(traffic.port, ca, cleanup);
    }
    const head = { ":method": method, ":path": path, "x-forwarded-for": client, ...bearer(token) };
    const stream = session.session.request(head, { endStream: true });
    const { promise, resolve, reject } = Promise.withResolvers<TokenAnswer>();
    stream.on("error", reject);
    stream.on("response", (headers) => {
      const fields = new Map(Object.entries(headers).map(([name, value]) => [name, String(value)]));
      resolve({ status: Number(headers[":status"]), fields });
    });
    stream.resume();
    return promise;
  };
  return { name: "HTTP/2", ask };
}

function overCheckHttp({ extAuthUrl }: TestGateway): TokenCarrier {
  const ask = async ({ client, method = "GET", path = "/v1/x", token }: TokenAsk): Promise<TokenAnswer> => {
    const named = { "x-original-method": method, "x-original-uri": path, "x-forwarded-for": client };
    const response = await fetch(`${extAuthUrl}/auth-request`, { headers: { ...named, ...bearer(token) } });
    await response.arrayBuffer();
    return { status: response.status, fields: new Map(response.headers) };
  };
  return { name: "a check over HTTP", ask };
}

interface GrpcField {
  readonly header: { readonly key: string; readonly value: string };
}

interface GrpcCheckAnswer {
  readonly denied_response?: {
    readonly status: { readonly code: string | number };
    readonly headers: readonly GrpcField[];
  };
  readonly ok_response?: { readonly response_headers_to_add: readonly GrpcField[] };
}

function overCheckGrpc({ grpc }: TestGateway, cleanup: Cleanup): TokenCarrier {
  const caller = new GrpcClient(`127.0.0.1:${grpc?.port}`, credentials.createInsecure());
  cleanup(() => caller.close());
  const ask = ({ client, method = "GET", path = "/v1/x", token }: TokenAsk): Promise<TokenAnswer> =>
    new Promise((resolve, reject) => {
      const asked = checkRequest({ method, path, headers: { ":method": method, ...bearer(token) } }, client);
      const { path: name, requestSerialize, responseDeserialize } = check;
      caller.makeUnaryRequest(name, requestSerialize, responseDeserialize, asked, (error, message) => {
        if (error !== null) return reject(error);
        const { denied_response: denied, ok_response: ok } = message as GrpcCheckAnswer;
        const headers = denied?.headers ?? ok?.response_headers_to_add ?? [];
        const fields = new Map(headers.map(({ header }) => [header.key.toLowerCase(), header.value]));
        const code = denied?.status.code ?? 200;
        resolve({ status: typeof code === "number" ? code : (statusCodes[code] ?? 0), fields });
      });
    });
  return { name: "a check over gRPC", ask };
}

/** The names of HttpStatus.StatusCode that Envoy has for statuses. */
const statusCodes: Readonly<Record<string, number>> = {
  ...{ OK: 200, BadRequest: 400, Unauthorized: 401, Forbidden: 403, NotFound: 404, URITooLong: 414 },
  ...{ TooManyRequests: 429, RequestHeaderFieldsTooLarge: 431 },
};

async function inPlugin(
  cleanup: Cleanup,
  { yaml, clock, routes = ["/v1/", "/v2/"] }: StageOptions,
  folder: string,
  maxHeaderBytes: number,
): Promise<TokenCarrier> {
  const app = fastify({ ...serverOptions({ maxHeaderBytes }), forceCloseConnections: true });
  cleanup(() => app.close());
  // The bound of a head is one of the server.
  const { maxHeaderBytes: _, ...options }: HeadgateOptions & { maxHeaderBytes?: string } = parse(yaml);
  const { systemClock } = await import("../../src/core/clock.ts");
  const plugin = createPlugin({ clock: clock ?? systemClock, nodeVersion: process.versions.node });
  await app.register(plugin, {
    ...options,
    auth: { ...options.auth, ...(yaml.includes("tokensFile") ? { tokensFile: join(folder, "tokens.txt") } : {}) },
    routes: [...routes],
    clientAddress: { trustedProxies: ["127.0.0.1"] },
  });
  app.all("/*", async () => "ok");
  const port = Number(new URL(await app.listen({ port: 0, host: "127.0.0.1" })).port);
  return { name: "the plugin", ask: askWith(httpRequest, { host: "127.0.0.1", port }) };
}

function fieldsOf(rawHeaders: readonly string[]): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (let i = 0; i < rawHeaders.length; i += 2)
    fields.set((rawHeaders[i] ?? "").toLowerCase(), rawHeaders[i + 1] ?? "");
  return fields;
}
