// The upstream everybody is measured before: nginx with answers of three sizes, on the load's core, plain and over TLS.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Certificate } from "./certificate.ts";
import { freePort, installed, type Running, start } from "./processes.ts";

/** Paths and the bytes of their bodies. The last one is answered when the request's body has been read. */
export const bodies = {
  "/v2/200b": jsonOf(200),
  "/v2/20k": jsonOf(20 * 1024),
  "/v2/1m": jsonOf(1024 * 1024),
  "/v2/read": jsonOf(200),
} as const;

export type UpstreamPath = keyof typeof bodies;

export interface Upstream {
  readonly port: number;
  /** Closed without a certificate. */
  readonly tlsPort: number;
  readonly running: Running;
}

export async function startUpstream(folder: string, core: number, certificate?: Certificate): Promise<Upstream> {
  if (!installed("nginx")) throw new Error("the upstream is nginx: install it (Debian: nginx-light)");
  const root = join(folder, "upstream");
  mkdirSync(join(root, "v2"), { recursive: true });
  for (const [path, body] of Object.entries(bodies)) writeFileSync(join(root, path), body);
  const [port, tlsPort] = [await freePort(), await freePort()];
  const { cert, key } = certificate ?? {};
  const config = join(root, "nginx.conf");
  writeFileSync(
    config,
    `${nginxFrame(root)}
http {
  access_log off;
  default_type application/json;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_max_body_size 16m;
  upstream itself { server 127.0.0.1:${port}; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    ${cert === undefined ? "" : `listen 127.0.0.1:${tlsPort} ssl; ssl_certificate ${cert}; ssl_certificate_key ${key};`}
    root ${root};
    location = /v2/200b { default_type application/json; return 200 '${bodies["/v2/200b"]}'; }
    location = /v2/read {
      client_body_buffer_size 1m;
      proxy_pass http://itself/v2/200b;
      proxy_pass_request_body off;
      proxy_method GET;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Content-Length "";
    }
    location = /status { stub_status; }
    location / { }
  }
}
`,
  );
  return { port, tlsPort, running: await start(["nginx", "-c", config, "-e", "stderr"], { core, port }) };
}

/** What stands around `http` in a configuration whose files all lie in `folder`; as root it stays root. */
export function nginxFrame(folder: string, connections = 4096): string {
  return `daemon off;
worker_processes 1;
worker_rlimit_nofile ${2 * connections};
${process.getuid?.() === 0 ? "user root;" : ""}
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections ${connections}; }
`;
}

function jsonOf(byteCount: number): string {
  const frame = '{"data":""}';
  return frame.replace('""', `"${"x".repeat(byteCount - frame.length)}"`);
}
