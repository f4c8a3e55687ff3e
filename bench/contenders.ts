// Who is measured: each with the configuration its users would write for the same job, on one core, as far as it can
// do that job. What one cannot do is said in `lacks`, and is not asked of it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Certificate } from "./certificate.ts";
import { gatewayFrame } from "./gateway-config.ts";
import { mostIdleConnections } from "./idle.ts";
import { freePort, installed, type Running, start, versionOf } from "./processes.ts";
import { nginxFrame } from "./upstream.ts";

/**
 * `open` admits everything that is measured, `throttled` nothing but the first. `logged` is open with an access log, `tls`
 * is open over TLS with HTTP/1.1 and HTTP/2, `tls-upstream` is open before an upstream over TLS, `crowded` and `tls-crowded`
 * are `open` and `tls` with room for the idle connections.
 */
export type Mode = "open" | "throttled" | "logged" | "tls" | "tls-upstream" | "crowded" | "tls-crowded";

const hasTls = (mode: Mode): boolean => mode === "tls" || mode === "tls-crowded";
const isCrowded = (mode: Mode): boolean => mode === "crowded" || mode === "tls-crowded";

export interface Contender {
  readonly name: string;
  /** Null if it is not installed. */
  readonly version: string | null;
  readonly lacks: string;
  /** Whether its answers tell the quota in RateLimit-* or X-RateLimit-* fields. */
  readonly hasFields: boolean;
  readonly modes: readonly Mode[];
  readonly start: (place: Place) => Promise<Started>;
}

export interface Place {
  readonly mode: Mode;
  readonly upstreamPort: number;
  /** Of the modes with TLS, also that of the upstream. */
  readonly certificate: Certificate | undefined;
  /** Empty, and its own. */
  readonly folder: string;
  readonly core: number;
  /** That of the load too. */
  readonly allCores: string;
}

export interface Started {
  readonly port: number;
  /** The port of probes and scrapes, where there is one. */
  readonly admin?: number;
  readonly running: Running;
}

const bench = import.meta.dirname;
const root = join(bench, "..");
/** The Node that runs this. */
const node = process.execPath;

/** So high that nobody reaches it, counted exactly all the same. */
const openLimit = 1_000_000;
const openWindowMs = 1000;
const hourMs = 3_600_000;
/** The idle ones and those to the upstream. */
const crowd = mostIdleConnections + 2000;
const allModes: readonly Mode[] = ["open", "throttled", "logged", "tls", "tls-upstream", "crowded", "tls-crowded"];

/** Whether it has the key of the configuration, as another checkout may not. */
function knows(checkout: string, key: string): boolean {
  return readFileSync(join(checkout, "config/headgate.schema.json"), "utf8").includes(`"${key}"`);
}

/** `checkout`: where it has been built. */
export const headgateOf = (checkout: string, name: string, workers = 1): Contender => ({
  name,
  version: versionOf(node, join(checkout, "dist/main.js"), "--version"),
  lacks: "",
  hasFields: true,
  modes: allModes,
  async start({ mode, upstreamPort, certificate, folder, core, allCores }) {
    const [port, admin] = [await freePort(), await freePort()];
    // The default window. With one of a second, at this rate a unit expires during each request, and the decision's Reset
    // has passed when the response is sent.
    const policy = mode === "throttled" ? "limit: 1, window: 1h" : `limit: ${100 * openLimit}, window: 60s`;
    const more = [
      ...(knows(checkout, "newConnectionsPerPeer") ? ["newConnectionsPerPeer: 1000000"] : []),
      ...(isCrowded(mode) ? [`maxConnections: ${crowd}, maxConnectionsPerPeer: ${crowd}`] : []),
      ...(hasTls(mode) ? [`tls: { cert: ${certificate?.cert}, key: ${certificate?.key} }`] : []),
    ];
    const upstreamCa = mode === "tls-upstream" ? certificate?.cert : undefined;
    const config = join(folder, "headgate.yaml");
    writeFileSync(
      config,
      `${gatewayFrame({ port, admin, upstreamPort, upstreamCa }, more)}
policies: [{ name: bench, ${policy}${knows(checkout, "maxClients") ? ", maxClients: 1000" : ""} }]
log: { access: ${mode === "logged"} }
${workers === 1 ? "" : `workers: ${workers}\n`}`,
    );
    const log = mode === "logged" ? join(folder, "access.log") : "/dev/null";
    const command = [
      "sh",
      "-c",
      `exec "$0" "$@" >${log}`,
      node,
      join(checkout, "dist/main.js"),
      "start",
      "--config",
      config,
    ];
    return { port, admin, running: await start(command, { core: workers === 1 ? core : allCores, port }) };
  },
});

const headgate = headgateOf(root, "Headgate");
/** Threads take two cores, so this one shares the core of the load. */
const headgateWorkers = headgateOf(root, "Headgate with 2 workers", 2);

const nginx: Contender = {
  name: "nginx limit_req",
  version: installed("nginx") ? versionOf("nginx", "-v") : null,
  lacks: "fields, a sliding window",
  hasFields: false,
  modes: allModes,
  async start({ mode, upstreamPort, certificate, folder, core }) {
    const port = await freePort();
    const config = join(folder, "nginx.conf");
    const tls = `ssl http2; ssl_certificate ${certificate?.cert}; ssl_certificate_key ${certificate?.key};`;
    const verified = `proxy_ssl_trusted_certificate ${certificate?.cert}; proxy_ssl_verify on; proxy_ssl_name localhost;`;
    writeFileSync(
      config,
      `${nginxFrame(folder, isCrowded(mode) ? crowd : 4096)}
http {
  ${mode === "logged" ? `access_log ${folder}/access.log combined;` : "access_log off;"}
  keepalive_requests 1000000000;
  client_max_body_size 16m;
  limit_req_zone $binary_remote_addr zone=per_ip:10m rate=${mode === "throttled" ? "1r/m" : "1000000r/s"};
  limit_req_status 429;
  upstream backend { server 127.0.0.1:${upstreamPort}; keepalive 512; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096 ${hasTls(mode) ? tls : ";"}
    location / {
      limit_req zone=per_ip ${mode === "throttled" ? "" : "burst=100000 nodelay"};
      ${mode === "tls-upstream" ? `proxy_pass https://backend; ${verified}` : "proxy_pass http://backend;"}
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
      proxy_request_buffering off;
    }
  }
}
`,
    );
    return { port, running: await start(["nginx", "-c", config, "-e", "stderr"], { core, port }) };
  },
};

/** Strict limits would demand two open files for each connection, though idle ones need one. */
const haproxy: Contender = {
  name: "HAProxy stick-table",
  version: installed("haproxy") ? versionOf("haproxy", "-v") : null,
  lacks: "a sliding window (its rate is an estimate, and counts what it refuses)",
  hasFields: true,
  modes: allModes.filter((mode) => mode !== "logged"),
  async start({ mode, upstreamPort, certificate, folder, core }) {
    const port = await freePort();
    const config = join(folder, "haproxy.cfg");
    const limit = mode === "throttled" ? 1 : openLimit;
    const window = mode === "throttled" ? "1h" : "1s";
    const fields = ["ratelimit", "x-ratelimit"].flatMap((prefix) => [
      `${prefix}-limit ${limit}`,
      `${prefix}-remaining %[var(txn.left)]`,
      `${prefix}-reset ${window === "1h" ? 3600 : 1}`,
    ]);
    writeFileSync(
      config,
      `global
  maxconn ${isCrowded(mode) ? crowd : 4096}
  nbthread 1
  no strict-limits
defaults
  mode http
  timeout connect 2s
  timeout client 65s
  timeout server 30s
  http-reuse always
frontend clients
  bind 127.0.0.1:${port} backlog 4096 ${hasTls(mode) ? `ssl crt ${certificate?.both} alpn h2,http/1.1` : ""}
  stick-table type ipv6 size 100k expire 2h store http_req_rate(${window})
  http-request track-sc0 src
  http-request set-var(txn.rate) sc_http_req_rate(0)
  http-request set-var(txn.left) int(${limit}),sub(txn.rate)
  http-request return status 429 content-type application/json hdr retry-after 3600 ${fields
    .map((field) => `hdr ${field.replace("%[var(txn.left)]", "0")}`)
    .join(" ")} string '{"message":"Too many requests"}' if { var(txn.rate) -m int gt ${limit} }
  option forwardfor
${fields.map((field) => `  http-response set-header ${field}`).join("\n")}
  default_backend api
backend api
  server api 127.0.0.1:${upstreamPort} ${mode === "tls-upstream" ? `ssl verify required ca-file ${certificate?.cert}` : ""}
`,
    );
    return { port, running: await start(["haproxy", "-db", "-f", config], { core, port }) };
  },
};

/** Node's TLS with nothing behind it: what an idle connection over TLS costs any server that runs on Node. */
export const bareTls: Contender = {
  name: "bare node:tls",
  version: process.versions.node,
  lacks: "everything but TLS",
  hasFields: false,
  modes: ["tls-crowded"],
  async start({ certificate, core }) {
    const port = await freePort();
    const command = [node, join(bench, "peers/bare-tls.js"), port, certificate?.cert, certificate?.key].map(String);
    return { port, running: await start(command, { core, port }) };
  },
};

const caddy: Contender = {
  name: "Caddy reverse_proxy",
  version: installed("caddy") ? versionOf("caddy", "version") : null,
  lacks: "any rate limit (it is a plugin)",
  hasFields: false,
  modes: ["open"],
  async start({ upstreamPort, folder, core }) {
    const port = await freePort();
    const config = join(folder, "Caddyfile");
    writeFileSync(
      config,
      `{
  admin off
  auto_https off
  storage file_system ${folder}
}
http://127.0.0.1:${port} {
  reverse_proxy 127.0.0.1:${upstreamPort} {
    transport http {
      keepalive_idle_conns_per_host 512
    }
  }
}
`,
    );
    // Go would otherwise start as many threads as the machine has cores.
    const command = ["env", "GOMAXPROCS=1", `HOME=${folder}`, "caddy", "run", "--config", config];
    return { port, running: await start([...command, "--adapter", "caddyfile"], { core, port }) };
  },
};

const fastify = peer("stock Fastify pair", "fastify", "fastify.js", "an exact window");
const express = peer("stock Express trio", "express", "express.js", "an exact window");

export const contenders: readonly Contender[] = [headgate, headgateWorkers, nginx, haproxy, caddy, fastify, express];

function peer(name: string, module: string, file: string, lacks: string): Contender {
  const manifest = join(bench, "node_modules", module, "package.json");
  return {
    name,
    version: existsSync(manifest) ? String(createRequire(import.meta.url)(manifest).version) : null,
    lacks,
    hasFields: true,
    modes: ["open", "throttled"],
    async start({ mode, upstreamPort, folder, core }) {
      mkdirSync(folder, { recursive: true });
      const port = await freePort();
      const [limit, windowMs] = mode === "throttled" ? [1, hourMs] : [openLimit, openWindowMs];
      const upstream = `http://127.0.0.1:${upstreamPort}`;
      const command = [node, join(bench, "peers", file), port, upstream, limit, windowMs].map(String);
      return { port, running: await start(command, { core, port }) };
    },
  };
}
