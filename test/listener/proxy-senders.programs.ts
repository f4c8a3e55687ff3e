// Real programs in front of the gateway that send it PROXY headers: what each writes of its clients is who is charged, and the
// upstream is told by which scheme the client came.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { accepts, isInstalled } from "../conformance/fuzz/backends/backend.ts";
import { Authority } from "../support/certificates.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();

interface Around {
  readonly folder: string;
  readonly port: number;
  /** Of the gateway. */
  readonly target: number;
  /** A certificate, and the same with its key behind it. */
  readonly pem: string;
}

interface Sender {
  readonly debianPackage: string;
  readonly isInstalled: boolean;
  readonly command: (around: Around) => readonly string[];
  /** Of the file `config`. */
  readonly config: (around: Around) => string;
}

const nginxModule = "/usr/lib/nginx/modules/ngx_stream_module.so";

const nginx: Sender = {
  debianPackage: "nginx-light libnginx-mod-stream",
  isInstalled: isInstalled("nginx") && existsSync(nginxModule),
  command: ({ folder }) => ["nginx", "-c", `${folder}/config`, "-p", folder, "-e", `${folder}/errors`],
  config: ({ folder, port, target }) => `
    load_module ${nginxModule};
    daemon off;
    worker_processes 1;
    pid ${folder}/pid;
    events { worker_connections 64; }
    stream {
      server {
        listen 127.0.0.1:${port} proxy_protocol;
        set_real_ip_from 127.0.0.1;
        proxy_protocol on;
        proxy_pass 127.0.0.1:${target};
      }
    }`,
};

const haproxy = (bind: (around: Around) => string, send: string): Sender => ({
  debianPackage: "haproxy",
  isInstalled: isInstalled("haproxy"),
  command: ({ folder }) => ["haproxy", "-db", "-f", `${folder}/config`],
  config: (around) => `
defaults
  mode tcp
  timeout client 10s
  timeout connect 2s
  timeout server 10s
listen edge
  bind 127.0.0.1:${around.port} ${bind(around)}
  server gateway 127.0.0.1:${around.target} ${send}
`,
});

const plain = (): string => "";
const tls = ({ pem }: Around): string => `ssl crt ${pem}`;
const told = (): string => "accept-proxy";

const hitch = (version: string): Sender => ({
  debianPackage: "hitch",
  isInstalled: isInstalled("hitch", "--version"),
  command: ({ folder }) => ["hitch", `--config=${folder}/config`],
  config: ({ port, target, pem }) => `
frontend = "[127.0.0.1]:${port}"
backend = "[127.0.0.1]:${target}"
pem-file = "${pem}"
workers = 1
user = "nobody"
daemon = off
${version} = on
`,
});

const stunnel: Sender = {
  debianPackage: "stunnel4",
  isInstalled: isInstalled("stunnel", "-version"),
  command: ({ folder }) => ["stunnel", `${folder}/config`],
  config: ({ port, target, pem }) => `
foreground = yes
pid =
[edge]
accept = 127.0.0.1:${port}
connect = 127.0.0.1:${target}
protocol = proxy
cert = ${pem}
`,
};

async function start(sender: Sender, around: Around): Promise<void> {
  writeFileSync(join(around.folder, "config"), sender.config(around));
  const [command = "", ...args] = sender.command(around);
  const { end } = startProcessGroup(command, args, { stdout: "ignore", stderr: "ignore" });
  cleanup(end);
  // It only ends a start that hangs, as that of `startBackend` does.
  await eventually(`${command} accepts`, () => accepts(around.port), 20_000);
}

/** The folder is open to the users to which some programs change. */
function folderOf(cleanup: Cleanup): string {
  const folder = scratchFolder(cleanup);
  return folder;
}

interface Case {
  readonly name: string;
  readonly sender: Sender;
  /** Whether the client comes by TLS. */
  readonly byTls?: boolean;
  /** What the program itself is told of the client. */
  readonly before?: string;
  readonly client: string;
  readonly scheme: "http" | "https";
  readonly proxyScheme?: "https";
}

const localhost = "127.0.0.1";
const v6 = "PROXY TCP6 2001:db8::1 2001:db8::2 51512 443\r\n";
const v4 = "PROXY TCP4 198.51.100.7 198.51.100.1 51512 443\r\n";
const mapped = "PROXY TCP6 ::ffff:198.51.100.7 ::ffff:198.51.100.1 51512 443\r\n";

const cases: readonly Case[] = [
  { name: "nginx stream, told of an IPv6 client", sender: nginx, before: v6, client: "2001:db8::1", scheme: "http" },
  { name: "nginx stream, told of an IPv4 client", sender: nginx, before: v4, client: "198.51.100.7", scheme: "http" },
  {
    name: "nginx stream, told of a mapped client",
    sender: nginx,
    before: mapped,
    client: "198.51.100.7",
    scheme: "http",
  },
  { name: "HAProxy send-proxy", sender: haproxy(plain, "send-proxy"), client: localhost, scheme: "http" },
  {
    name: "HAProxy send-proxy, IPv6",
    sender: haproxy(told, "send-proxy"),
    before: v6,
    client: "2001:db8::1",
    scheme: "http",
  },
  {
    name: "HAProxy send-proxy-v2, IPv6",
    sender: haproxy(told, "send-proxy-v2"),
    before: v6,
    client: "2001:db8::1",
    scheme: "http",
  },
  {
    name: "HAProxy send-proxy-v2, mapped",
    sender: haproxy(told, "send-proxy-v2"),
    before: mapped,
    client: "198.51.100.7",
    scheme: "http",
  },
  {
    name: "HAProxy send-proxy-v2 behind TLS, which does not say it",
    sender: haproxy(tls, "send-proxy-v2"),
    byTls: true,
    client: localhost,
    scheme: "http",
  },
  {
    name: "HAProxy send-proxy-v2-ssl behind TLS",
    sender: haproxy(tls, "send-proxy-v2-ssl"),
    byTls: true,
    client: localhost,
    scheme: "https",
  },
  {
    name: "HAProxy send-proxy-v2-ssl behind a plain port",
    sender: haproxy(plain, "send-proxy-v2-ssl"),
    client: localhost,
    scheme: "http",
    proxyScheme: "https",
  },
  { name: "hitch with version 2", sender: hitch("write-proxy-v2"), byTls: true, client: localhost, scheme: "https" },
  {
    name: "hitch with version 1, and the key",
    sender: hitch("write-proxy-v1"),
    byTls: true,
    client: localhost,
    scheme: "https",
    proxyScheme: "https",
  },
  {
    name: "stunnel, and the key",
    sender: stunnel,
    byTls: true,
    client: localhost,
    scheme: "https",
    proxyScheme: "https",
  },
  { name: "stunnel without the key", sender: stunnel, byTls: true, client: localhost, scheme: "http" },
];

for (const { name, sender, byTls = false, before, client, scheme, proxyScheme = "http" } of cases) {
  const isMissing = !sender.isInstalled && process.env["HEADGATE_REQUIRE"] !== "all";
  test.skipIf(isMissing)(`${name} (needs apt-get install ${sender.debianPackage})`, async () => {
    const { gateway, upstream } = await stageHttp(cleanup, undefined, { listen: { proxyProtocol: true, proxyScheme } });
    const folder = folderOf(cleanup);
    const authority = new Authority(cleanup);
    const { cert, key } = authority.issue();
    const pem = join(folder, "both.pem");
    writeFileSync(pem, cert + key);
    const port = await freePort();
    await start(sender, { folder, port, target: gateway.traffic.port, pem });
    const connection = new RawConnection(port, {
      ...(byTls ? { tls: { ca: authority.cert } } : {}),
      ...(before === undefined ? {} : { before }),
    });
    cleanup(() => connection.destroy());
    expect((await connection.ask(request("/v2/x"))).status).toBe(200);
    const fields = upstream.received[0]?.rawHeaders ?? [];
    expect([valuesOf(fields, "X-Forwarded-For"), valuesOf(fields, "X-Forwarded-Proto")]).toEqual([[client], [scheme]]);
  });
}
