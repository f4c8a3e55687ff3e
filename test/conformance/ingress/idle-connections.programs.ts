// nginx, Caddy and HAProxy as they keep idle connections to the gateway, over a path that takes a while. Nobody may repeat a
// POST: one that a proxy sends on a connection which the gateway is closing is lost. None is lost if the proxy closes first.
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Cleanup, cleanupOf } from "../../support/cleanup.ts";
import { within } from "../../support/eventually.ts";
import { startTestGateway } from "../../support/gateway.ts";
import { listen } from "../../support/loopback-server.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { request } from "../../support/stage.ts";
import { startUpstream } from "../../support/upstream.ts";
import { isInstalled } from "../fuzz/backends/backend.ts";
import { haproxyProgram, nginxArgs, nginxFrame, type Program, startProgram } from "../programs.ts";

interface Proxy {
  readonly name: string;
  readonly debianPackage: string;
  readonly version?: string;
  /** Keeps an idle connection for so many seconds. HAProxy closes half of them at each interval of so many. */
  readonly program: (gatewayPort: number, idleSeconds: number) => Program;
}

const proxies: readonly Proxy[] = [
  {
    name: "nginx",
    debianPackage: "nginx-light",
    program: (gatewayPort, idleSeconds) => ({
      command: "nginx",
      args: nginxArgs,
      files: (folder, port) => ({
        "nginx.conf": nginxFrame(
          folder,
          `upstream gateway { server 127.0.0.1:${gatewayPort}; keepalive 64; keepalive_timeout ${idleSeconds}s; }
          server {
            listen 127.0.0.1:${port};
            location / { proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection ""; }
          }`,
        ),
      }),
    }),
  },
  {
    name: "Caddy",
    debianPackage: "caddy",
    version: "version",
    program: (gatewayPort, idleSeconds) => ({
      command: "caddy",
      args: (folder) => ["run", "--config", join(folder, "Caddyfile"), "--adapter", "caddyfile"],
      files: (_folder, port) => ({
        Caddyfile: `
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
      }),
    }),
  },
  {
    name: "HAProxy",
    debianPackage: "haproxy",
    program: (gatewayPort, idleSeconds) =>
      haproxyProgram(`127.0.0.1:${gatewayPort} pool-purge-delay ${idleSeconds}s`, { defaults: "  http-reuse always" }),
  },
];

const { HEADGATE_REQUIRE } = process.env;
const delayMs = 40;
/** As many as a proxy keeps, and POSTs that are sent at once. */
const count = 16;

/**
 * Passes bytes on to a port after a while. The proxy hears of the port's ends only when it has sent something again: between the two,
 * a connection that the gateway has closed looks idle to it.
 */
async function startPath(cleanup: Cleanup, to: number): Promise<{ port: number; firstEnd: Promise<unknown> }> {
  const end = Promise.withResolvers<void>();
  const sentAgain = Promise.withResolvers<void>();
  let hasEnd = false;
  const later = (from: Socket, into: Socket, after: Promise<void> | undefined): void => {
    from.on("error", () => into.destroy());
    from.on("data", (bytes) => setTimeout(() => into.writable && into.write(bytes), delayMs));
    from.on("end", async () => {
      await after;
      setTimeout(() => into.end(), delayMs);
    });
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const other = connect({ port: to, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    other.once("end", () => {
      hasEnd = true;
      end.resolve();
    });
    socket.on("data", () => {
      if (hasEnd) sentAgain.resolve();
    });
    later(socket, other, undefined);
    later(other, socket, sentAgain.promise);
  });
  const port = await listen(cleanup(server));
  return { port, firstEnd: end.promise };
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
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
  const { port: pathPort, firstEnd } = await startPath(cleanup, gateway.traffic.port);
  const { port } = await startProgram(cleanup, proxy.program(pathPort, idleSeconds));
  /** The statuses of requests that were sent at once; 0 is none. */
  const ask = (method: string): Promise<number[]> =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const client = cleanup(new RawConnection(port));
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
  const { name, debianPackage, version = "-v" } = proxy;
  const isMissing = !isInstalled(proxy.program(0, 0).command, version) && HEADGATE_REQUIRE !== "all";
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
