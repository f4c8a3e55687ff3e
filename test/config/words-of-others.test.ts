// Words of other gateways and libraries: the message about each names our key, or the value as it has to be written.
import { expect, test } from "vitest";
import { parsePluginOptions } from "../../src/fastify/plugin-options.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { loadGiven } from "./given.ts";

const cleanup = useCleanup();

const cases: readonly [yaml: string, message: string][] = [
  // nginx
  ["client_max_body_size: 10m", '"maxBodyBytes"'],
  ["proxy_pass: http://a", '"upstream.url"'],
  ["proxy_read_timeout: 60s", '"upstream.responseTimeout" or "upstream.bodyTimeout"'],
  ["client_body_timeout: 60s", '"timeouts"'],
  ["keepalive_timeout: 60s", '"timeouts"'],
  ["set_real_ip_from: 10.0.0.0/8", '"clientAddress.trustedProxies"'],
  ["real_ip_header: X-Real-IP", '"clientAddress.trustedProxies"'],
  ["ssl_certificate: a.pem", '"listen.tls"'],
  ["location: /api/", '"routes"'],
  ["deny: [203.0.113.7]", "headgate block 203.0.113.7 --for 1h"],
  ["burst: 20", '"policies"'],
  ["policies: [{ name: a, limit: 100r/m, window: 60s }]", "a whole number (the time is in window or per)"],
  // HAProxy
  ["bind: 0.0.0.0", '"listen.host"'],
  ["backend: http://a", '"upstream.url"'],
  ["servers: [a]", '"upstream.url"'],
  ["upstream: { timeout_server: 60s }", '"upstream.responseTimeout"'],
  // Traefik
  ["rateLimit: { average: 100, period: 1m }", '"policies"'],
  ["average: 100", '"policies.0.limit"'],
  ["period: 1m", '"policies.0.window"'],
  // Envoy
  ["requests_per_unit: 100", '"policies.0.limit"'],
  ["token_bucket: { max_tokens: 20 }", '"policies"'],
  ["tls: { certFile: a.pem }", '"listen.tls"'],
  ["forwardedHeaders: { trustedIPs: [] }", '"clientAddress.trustedProxies"'],
  ["accessLog: true", '"log"'],
  // Kong
  ["upstreams: [http://a]", '"upstream.url"'],
  ["services: [http://a]", '"upstream.url"'],
  ["limits: [100]", '"policies"'],
  ["minute: 100", '"policies.0.limit"'],
  ["redis: { host: a }", '"counters.redis"'],
  ["whitelist: [10.0.0.1]", '"policies.0.exempt"'],
  ["blacklist: [10.0.0.1]", "headgate block 203.0.113.7 --for 1h"],
  ["cors: { allowed_origins: [http://a] }", '"cors.origins"'],
  // Express, Fastify and their plugins
  ["maxBodySize: 10MiB", '"maxBodyBytes"'],
  ["bodyLimit: 1048576", '"maxBodyBytes"'],
  ["windowMs: 60000", '"policies.0.window"'],
  ["max: 100", '"policies.0.limit"'],
  ["trustProxy: true", '"clientAddress.trustedProxies"'],
  ["trusted_proxies: [10.0.0.0/8]", '"clientAddress.trustedProxies"'],
  ["allowList: [10.0.0.1]", '"policies.0.exempt"'],
  ["standardHeaders: true", '"fields"'],
  ["target: http://a", '"upstream.url"'],
  ["port: 8080", '"listen.port"'],
  ["listen: 8080", '"listen.port"'],
  ["apiKey: a", '"auth.tokensFile"'],
  ["shutdownTimeout: 10s", '"drain.timeout"'],
  ["upstream: { target: http://a }", '"upstream.url"'],
  ["timeouts: { idle: 60s }", '"timeouts.keepAlive"'],
  ["cors: { origin: http://a }", '"cors.origins"'],
  // Values
  ["policies: [{ name: a, limit: 100, window: 60 }]", 'a duration with its unit, such as "60s"'],
  ["policies: [{ name: a, limit: 100, window: 1min }]", "a whole number with ms, s, m, h or d"],
  ["routes: [/api]", 'found "/api", expected a path that begins and ends with "/", such as /api/'],
  ["routes: [api]", "such as /api/"],
  ["routes: [/api/v1/*]", "such as /api/v1/"],
  ["routes: [/a/../b]", "without empty or dot segments"],
  ["routes: [5]", "such as /5/"],
];

test.each(cases)("%s: %s", (yaml, message) => {
  const loaded = loadGiven(scratchFolder(cleanup), { yaml });
  expect(loaded.ok ? "" : JSON.stringify(loaded.errors)).toContain(JSON.stringify(message).slice(1, -1));
});

test.each([
  [{ max: 100 }, "policies.0.limit"],
  [{ timeWindow: "1 minute" }, "policies.0.window"],
  [{ denyList: ["10.0.0.1"] }, "put the gateway in front of the app"],
  [{ cors: { allowedOrigins: [] } }, "cors.origins"],
  [{ routes: ["/api"] }, "such as /api/"],
])("as options of the plugin, %j: %s", (options, message) => {
  expect(() => parsePluginOptions(options)).toThrow(message);
});
