// What each carrier needs to be tried with one request: the gateway or an app with the plugin, before an upstream that counts.
import { connect } from "node:net";
import type { FastifyReply } from "fastify";
import type { Authenticator } from "../../src/core/authentication.ts";
import type { Policy } from "../../src/core/policy.ts";
import type { HeadgateOptions } from "../../src/fastify/index.ts";
import { accessLines, startTestApp, type TestAppOptions } from "../fastify/app.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import type { TlsListener } from "../support/tls-listener.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { type Carrier, carriers, rateLimitCarrier, type Sent, sendBytes } from "./carriers.ts";
import { upstreams } from "./verdicts.ts";

export interface ExchangeStage {
  /** Requests that are at the upstream, or at a handler of the app. */
  readonly atUpstream: () => number;
  send(): Sent;
  /** Of the access log. */
  lines(): readonly Record<string, unknown>[];
  /** Internal errors that were logged. */
  failures(): number;
  /** The text of a scrape. */
  metrics(): Promise<string>;
  /** Resolves when no connection is accepted any more. */
  stopped(): Promise<void>;
  /** Breaks off what is under way when the drain's time is over; an app does at once. */
  close(): Promise<void>;
}

export interface ExchangeStageOptions {
  readonly tls: (overrides: Overrides) => TlsListener;
  readonly upstream?: keyof typeof upstreams;
  readonly authenticator?: Authenticator;
  readonly policies?: readonly Policy[];
  readonly drainMs?: number;
  /** Default: longer than any test waits, so that only the tests of these times see their end. */
  readonly times?: { readonly responseTimeoutMs?: number; readonly bodyTimeoutMs?: number };
}

export interface StagedCarrier extends Pick<Carrier, "name" | "forwards" | "source"> {
  /** Whether its end waits for what is under way. */
  readonly drains: boolean;
  start(cleanup: Cleanup, options: ExchangeStageOptions): Promise<ExchangeStage>;
}

async function startUpstream(cleanup: Cleanup, upstream: keyof typeof upstreams) {
  let count = 0;
  const { url, close } = await startRawUpstream((socket) => {
    count += 1;
    socket.write(upstreams[upstream]);
  });
  cleanup(close);
  return { url, count: () => count };
}

async function startGateway(
  carrier: Carrier,
  cleanup: Cleanup,
  { tls, upstream = "answers", authenticator, policies, drainMs = 80, times = {} }: ExchangeStageOptions,
): Promise<ExchangeStage> {
  const { url, count } = await startUpstream(cleanup, upstream);
  const drain = { delayMs: 0, timeoutMs: drainMs };
  const given: Overrides = { drain, upstream: times, ...(policies === undefined ? {} : { policies }) };
  const listener = tls(given);
  const gateway = await startTestGateway({
    upstreamUrl: url,
    overrides: { ...given, ...carrier.overrides(listener) },
    ...(authenticator === undefined ? {} : { authenticator }),
  });
  cleanup(() => gateway.close());
  const linesOf = (wanted: string) => gateway.logLines.filter(({ msg }) => msg === wanted);
  return {
    atUpstream: count,
    send: () => carrier.send(gateway, cleanup, listener.ca),
    lines: () => linesOf("request"),
    failures: () => linesOf("internal error").length,
    metrics: async () => (await fetch(`${gateway.adminUrl}/metrics`)).text(),
    stopped: () => eventually("no connection is accepted any more", () => isRefused(gateway.traffic.port)),
    close: gateway.close,
  };
}

function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(true));
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
  });
}

/** The same as of an upstream, by a handler of the app. */
const handlers: Readonly<Record<keyof typeof upstreams, (reply: FastifyReply) => void>> = {
  answers: (reply) => void reply.send("ok"),
  holds: () => {},
  begins: (reply) => void reply.hijack().raw.writeHead(200, { "Content-Length": "10" }).write("half."),
};

async function startApp(
  proxies: boolean,
  cleanup: Cleanup,
  { upstream = "answers", authenticator, policies, times = {} }: ExchangeStageOptions,
): Promise<ExchangeStage> {
  const { url, count } = await startUpstream(cleanup, upstream);
  const { responseTimeoutMs = 60_000, bodyTimeoutMs = 60_000 } = times;
  const waits = { responseTimeout: `${responseTimeoutMs}ms`, bodyTimeout: `${bodyTimeoutMs}ms` };
  let atApp = 0;
  const options: HeadgateOptions = {
    ...(proxies ? { upstream: { url, ...waits } } : {}),
    ...(policies === undefined ? {} : { policies: policies.map(policyOptions) }),
  };
  const routes: TestAppOptions["routes"] & object = (app) =>
    app.get("/own", (_request, reply) => {
      atApp += 1;
      return handlers[upstream](reply);
    });
  const stage = await startTestApp(cleanup, { options, routes, ...(authenticator ? { authenticator } : {}) });
  const target = proxies ? "/x" : "/own";
  return {
    atUpstream: () => count() + atApp,
    send: () => sendBytes(stage.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n`, cleanup),
    lines: () => accessLines(stage),
    failures: () => stage.lines.filter(({ msg }) => msg === "internal error").length,
    metrics: async () => (await stage.app.headgate.metrics()).body,
    stopped: () => eventually("no connection is accepted any more", () => !stage.app.server.listening),
    close: async () => void (await stage.app.close()),
  };
}

/** A policy as the options of the plugin have it. */
function policyOptions({ name, limit, rate }: Policy): NonNullable<HeadgateOptions["policies"]>[number] {
  return rate.kind === "sliding" ? { name, limit, window: `${rate.windowMs}ms` } : { name, concurrency: limit };
}

const inGateway = (carrier: Carrier): StagedCarrier => ({
  ...carrier,
  drains: true,
  start: (cleanup, options) => startGateway(carrier, cleanup, options),
});

const inApp = (name: string, proxies: boolean): StagedCarrier => ({
  name,
  ...{ forwards: true, source: "proxy", drains: false },
  start: (cleanup, options) => startApp(proxies, cleanup, options),
});

export const stagedCarriers: readonly StagedCarrier[] = [
  ...carriers.map(inGateway),
  inApp("the plugin", false),
  inApp("the plugin, to an upstream", true),
];

export const stagedRateLimit: StagedCarrier = inGateway(rateLimitCarrier);
