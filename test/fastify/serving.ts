// The plugin before an upstream, as what answers the cases of the gateway's own corpora.
import type { AddressInfo } from "node:net";
import { fastify } from "fastify";
import { type HeadgateOptions, headgate, serverOptions } from "../../src/fastify/index.ts";
import type { Overrides, StartServing } from "../support/gateway.ts";

export const startServing: StartServing = async ({ upstreamUrl, overrides = {} }) => {
  const { http, ...server } = serverOptions();
  const headersTimeout = overrides.timeouts?.headMs ?? http.headersTimeout;
  const app = fastify({ ...server, http: { ...http, headersTimeout }, forceCloseConnections: true });
  await app.register(headgate, optionsOf(upstreamUrl, overrides));
  app.get("/metrics", { config: { headgate: false } }, async (_request, reply) => {
    const { contentType, body } = await app.headgate.metrics();
    return reply.type(contentType).send(body);
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  if (isExhausted(overrides)) await (await fetch(`${url}/v2/spends-the-one`)).arrayBuffer();
  return { url, adminUrl: url, traffic: { host: "127.0.0.1", port }, close: () => app.close() };
};

/** A limit of 0 is none that the options may have. */
const isExhausted = ({ policies }: Overrides): boolean => policies?.[0]?.limit === 0;

function optionsOf(upstreamUrl: string, overrides: Overrides): HeadgateOptions {
  const { policies, maxBodyBytes, fields, timeouts, upstream, log } = overrides;
  const { connectTimeoutMs, responseTimeoutMs, bodyTimeoutMs, maxConnections } = upstream ?? {};
  return {
    routes: ["/v1/", "/v2/"],
    refusals: overrides.refusals ?? { perSecond: 1_000_000, burst: 1_000_000 },
    upstream: {
      url: upstreamUrl,
      ...(connectTimeoutMs === undefined ? {} : { connectTimeout: `${connectTimeoutMs}ms` }),
      ...(responseTimeoutMs === undefined ? {} : { responseTimeout: `${responseTimeoutMs}ms` }),
      ...(bodyTimeoutMs === undefined ? {} : { bodyTimeout: `${bodyTimeoutMs}ms` }),
      ...(maxConnections === undefined ? {} : { maxConnections }),
    },
    ...(policies === undefined ? {} : { policies: [policyOf(overrides)] }),
    ...(maxBodyBytes === undefined ? {} : { maxBodyBytes }),
    ...(fields === undefined ? {} : { fields }),
    ...(timeouts?.bodyMs === undefined ? {} : { timeouts: { body: `${timeouts.bodyMs}ms` } }),
    ...(log?.access === undefined ? {} : { log: { access: log.access } }),
  };
}

function policyOf(overrides: Overrides): NonNullable<HeadgateOptions["policies"]>[0] {
  const policy = overrides.policies?.[0];
  if (policy === undefined) throw new Error("the overrides have an empty list of policies");
  const { name, limit, rate } = policy;
  if (isExhausted(overrides)) return { name, limit: 1, window: "1h" };
  return { name, limit, window: `${rate.kind === "sliding" ? rate.windowMs : 0}ms` };
}
