// nginx, Caddy and HAProxy as they keep idle connections to the gateway, over a path that takes a while. Nobody may repeat a
// POST: one that a proxy sends on a connection which the gateway is closing is lost. None is lost if the proxy closes first.
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Cleanup, cleanupOf } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { startProcessGroup } from "../../support/process-group.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { request } from "../../support/stage.ts";
import { startUpstream } from "../../support/upstream.ts";
import { accepts, isInstalled } from "../fuzz/backends/backend.ts";

interface Proxy {
  readonly name: string;
  readonly command: string;
  readonly debianPackage: string;
  readonly version?: string;
  readonly args: (file: string, folder: string) => readonly string[];
  /** Keeps an idle connection for so many seconds. HAProxy closes half of them at each interval of so many. */
  readonly config: (port: number, gatewayPort: number, idleSeconds: number, folder: string) => string;
}

const proxies: readonly Proxy[] = [
  {
    name: "nginx",
    command: "nginx",
    debianPackage: "nginx-light",
    args: (file, folder) => ["-c", file, "-p", folder, "-e", join(folder, "errors")],
    config: (port, gatewayPort, idleSeconds, folder) => `
      ${process.getuid?.() === 0 ? "user root;" : ""}
      daemon off;
      worker_processes 1;
      pid ${folder}/pid;
      events { worker_connections 256; }
      http {
        access_log off;
        ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((use) => `${use}_temp_path ${folder}/${use};`).join(" ")}
        upstream gateway { server 127.0.0.1:${gatewayPort}; keepalive 64; keepalive_timeout ${idleSeconds}s; }
        server {
          listen 127.0.0.1:${port};
          location / { proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection ""; }
        }
      }`,
  },
  {
    name: "Caddy",
    command: "caddy",
    debianPackage: "caddy",
    version: "version",
    args: (file) => ["run", "--config", file, "--adapter", "caddyfile"],
    config: (port, gatewayPort, idleSeconds) => `
{
	admin off
	auto_https off
}
:${port} {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:${gatewayPort} {
		transport http {
			keepalive ${idleSeconds}s
			keepalive_idle_conns_per_host 64
		}
	}
}
`,
  },
  {
    name: "HAProxy",
    command: "haproxy",
    debianPackage: "haproxy",
    args: (file) => ["-db", "-f", file],
    config: (port, gatewayPort, idleSeconds) => `
global
  nbthread 1
defaults
  mode http
  timeout client 10s
  timeout connect 5s
  timeout server 10s
  http-reuse always
frontend edge
  bind 127.0.0.1:${port}
  default_backend gateway
backend gateway
  server gateway 127.0.0.1:${gatewayPort} pool-purge-delay ${idleSeconds}s
`,
  },
];

const { HEADGATE_REQUIRE } = process.env;
const delayMs = 40;
/** As many as a proxy keeps, and POSTs that are sent at once. */
const count = 16;

/** Passes bytes, and the end of a connection, on to a port after a while. */
async function startPath(cleanup: Cleanup, to: number): Promise<{ port: number; firstEnd: Promise<unknown> }> {
  let onEnd: (value?: unknown) => void = () => {};
  const firstEnd = new Promise((resolve) => (onEnd = resolve));
  const later = (from: Socket, into: Socket): void => {
    from.on("error", () => into.destroy());
    from.on("data", (bytes) => setTimeout(() => into.writable && into.write(bytes), delayMs));
    from.on("end", () => setTimeout(() => into.end(), delayMs));
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const other = connect({ port: to, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    other.once("end", onEnd);
    later(socket, other);
    later(other, socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup(() => void server.close());
  return { port: (server.address() as AddressInfo).port, firstEnd };
}

async function startProxy(cleanup: Cleanup, proxy: Proxy, gatewayPort: number, idleSeconds: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-idle-"));
  const [port, file] = [await freePort(), join(folder, "config")];
  writeFileSync(file, proxy.config(port, gatewayPort, idleSeconds, folder));
  const env = { PATH: process.env["PATH"] ?? "", HOME: folder };
  const { child, end } = startProcessGroup(proxy.command, proxy.args(file, folder), { env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  cleanup(async () => {
    await end();
    rmSync(folder, { recursive: true, maxRetries: 3 });
  });
  await eventually(`${proxy.command} listens`, () => {
    if (child.exitCode !== null) throw new Error(`${proxy.command} did not start: ${output}`);
    return accepts(port);
  });
  return port;
}

/** The gateway behind the proxy, which has `count` idle connections to it. */
async function stage(cleanup: Cleanup, proxy: Proxy, keepAliveMs: number, idleSeconds: number) {
  const held: (() => void)[] = [];
  // The first requests wait for each other, so that each has a connection of its own.
  const upstream = await startUpstream((req, res) => {
    if (req.method === "POST") res.end("ok");
    else if (held.push(() => res.end("ok")) === count) for (const answer of held) answer();
  });
  cleanup(() => upstream.close());
  const overrides = {
    timeouts: { keepAliveMs },
    policies: [slidingPolicy({ limit: 10_000, windowMs: 60_000 })],
    drain: { timeoutMs: 0 },
  };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides });
  cleanup(() => gateway.close());
  const { port: pathPort, firstEnd } = await startPath(cleanup, gateway.traffic.port);
  const port = await startProxy(cleanup, proxy, pathPort, idleSeconds);
  /** The statuses of requests that were sent at once; 0 is none. */
  const ask = (method: string): Promise<number[]> =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const client = new RawConnection(port);
        cleanup(() => client.destroy());
        const body = method === "POST" ? { fields: "Content-Length: 2\r\n", body: "hi" } : {};
        client.write(request("/v2/x", { method, ...body }));
        const status = await within("an answer", client.read()).then(
          (answer) => answer.status,
          () => 0,
        );
        client.destroy();
        return status;
      }),
    );
  return { ask, firstEnd, hits: upstream.hits };
}

const all = (status: number): number[] => Array.from({ length: count }, () => status);

for (const proxy of proxies) {
  const { name, command, debianPackage, version = "-v" } = proxy;
  const isMissing = !isInstalled(command, version) && HEADGATE_REQUIRE !== "all";
  const runs = isMissing ? test.skip : test.concurrent;
  const needs = `(needs ${name}: apt-get install ${debianPackage})`;

  runs(`${name} loses POSTs if it keeps connections for longer than timeouts.keepAlive ${needs}`, async (context) => {
    const { ask, firstEnd } = await stage(cleanupOf(context), proxy, 100, 60);
    expect(await ask("GET")).toEqual(all(200));
    await within("the gateway closes one", firstEnd);
    expect((await ask("POST")).filter((status) => status !== 200).length).toBeGreaterThan(0);
  });

  runs(`${name} loses none if it keeps them for less ${needs}`, async (context) => {
    const { ask, hits } = await stage(cleanupOf(context), proxy, 620_000, 1);
    expect(await ask("GET")).toEqual(all(200));
    // Around the end of the proxy's second.
    for (const waitMs of [900, 1_100]) {
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      expect(await ask("POST")).toEqual(all(200));
    }
    expect(hits()).toBe(3 * count);
  });
}
