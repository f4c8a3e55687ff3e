// Mutated responses to real reverse proxies, each on an upstream connection of its own: what the proxy's client got, beside what
// our parser makes of the same bytes. A proxy that answers with a 5xx of its own, or breaks off, has refused.
import { once } from "node:events";
import { existsSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type BackendPlan, isInstalled, startBackend } from "../fuzz/backends/backend.ts";
import { type ResponseCase, responseCase } from "../fuzz/response-cases.ts";
import { valuesIn } from "../fuzz/strict-message.ts";
import { readStrictResponse } from "../fuzz/strict-response.ts";
import { writePieces } from "../pieces.ts";
import { sideBySide } from "../side-by-side.ts";
import { readOurResponse } from "./ours.ts";
import type { Verdict } from "./reading.ts";
import { compareResponses, type ReadResponse } from "./response-reading.ts";

export interface Proxy {
  readonly name: string;
  readonly debianPackage: string;
  readonly isInstalled: () => boolean;
  /** What it reads otherwise than RFC 9112 says. */
  readonly misreads?: RegExp;
  readonly plan: (upstreamPort: number) => Pick<BackendPlan, "command" | "args" | "files">;
}

const nginxConfig = (folder: string, port: number, upstream: number): string => `
daemon off;
worker_processes 1;
pid ${folder}/pid;
error_log ${folder}/errors crit;
events { worker_connections 2048; }
http {
  access_log off;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((use) => `${use}_temp_path ${folder}/${use};`).join(" ")}
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://127.0.0.1:${upstream};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_next_upstream off;
      proxy_read_timeout 2s;
      proxy_buffer_size 64k;
      proxy_buffers 4 64k;
      proxy_busy_buffers_size 128k;
    }
  }
}
`;

const haproxyConfig = (port: number, upstream: number): string => `
global
  nbthread 1
  maxconn 2000
  tune.bufsize 65536
defaults
  mode http
  retries 0
  timeout client 10s
  timeout connect 2s
  timeout server 2s
frontend edge
  bind 127.0.0.1:${port}
  default_backend upstream
backend upstream
  http-reuse never
  server upstream 127.0.0.1:${upstream}
`;

const apacheModules = "/usr/lib/apache2/modules";
const apacheConfig = (folder: string, port: number, upstream: number): string => `
ServerRoot ${folder}
ServerName proxy.test
PidFile ${folder}/pid
ErrorLog ${folder}/errors
LogLevel emerg
DefaultRuntimeDir ${folder}
Listen 127.0.0.1:${port}
${["mpm_event", "authz_core", "proxy", "proxy_http"].map((name) => `LoadModule ${name}_module ${apacheModules}/mod_${name}.so`).join("\n")}
<IfModule !unixd_module>
  LoadModule unixd_module ${apacheModules}/mod_unixd.so
</IfModule>
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadLimit 96
ThreadsPerChild 96
MaxRequestWorkers 96
ProxyTimeout 2
LimitRequestFields 1000
ProxyPass / http://127.0.0.1:${upstream}/ disablereuse=On retry=0 timeout=2
`;

export const proxies: readonly Proxy[] = [
  {
    name: "nginx",
    debianPackage: "nginx-light",
    isInstalled: () => isInstalled("nginx"),
    plan: (upstream) => ({
      command: "nginx",
      args: (folder) => ["-c", `${folder}/config`, "-p", folder, "-e", `${folder}/errors`],
      files: (folder, port) => ({ config: nginxConfig(folder, port, upstream) }),
    }),
  },
  {
    name: "HAProxy",
    debianPackage: "haproxy",
    isInstalled: () => isInstalled("haproxy"),
    // Behind an interim response, HAProxy 2.6 passes on a part of a body as the whole.
    misreads: /^HTTP\/1\.\d 1\d\d /m,
    plan: (upstream) => ({
      command: "haproxy",
      args: (folder) => ["-db", "-f", `${folder}/config`],
      files: (_folder, port) => ({ config: haproxyConfig(port, upstream) }),
    }),
  },
  {
    name: "Apache",
    debianPackage: "apache2",
    isInstalled: () => existsSync("/usr/sbin/apache2"),
    // What has no status line is a body of HTTP/0.9 to Apache, to its end.
    misreads: /^(?!HTTP\/1\.\d [1-5]\d\d[ \r])/,
    plan: (upstream) => ({
      command: "/usr/sbin/apache2",
      args: (folder) => ["-f", `${folder}/config`, "-DFOREGROUND"],
      files: (folder, port) => ({ config: apacheConfig(folder, port, upstream) }),
    }),
  },
];

const lanes = Array.from({ length: 48 }, (_, lane) => lane);
const patienceMs = 8_000;

/**
 * `they end at a break`: they pass on as whole what we break off (RFC 9112, 8), a body that ends with the connection when that is
 * reset (all three), or when nothing more comes (HAProxy).
 */
type ProxyVerdict = Verdict | "they end at a break";

export interface ProxyFigures {
  readonly verdicts: Record<string, number>;
  readonly flaws: string[];
}

export async function compareWithProxy(proxy: Proxy, count: number, firstSeed: number): Promise<ProxyFigures> {
  const upstream = createServer(respond);
  await once(upstream.listen(0, "127.0.0.1"), "listening");
  const started = await startBackend({
    ...proxy.plan((upstream.address() as AddressInfo).port),
    logsToOutput: true,
    shownAs: (sent) => sent,
    readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
  });
  const figures: ProxyFigures = { verdicts: {}, flaws: [] };
  try {
    const seeds = Array.from({ length: count }, (_, i) => firstSeed + i);
    await sideBySide(lanes, seeds, async (_lane, seed) => judge(proxy, seed, await ask(started.port, seed), figures));
  } finally {
    await started.stop();
    await started.remove();
    upstream.close();
  }
  return figures;
}

/** The path has the seed of the response. */
function respond(socket: Socket): void {
  let head = "";
  socket.on("error", () => {});
  socket.setNoDelay(true);
  socket.on("data", (bytes: Buffer) => {
    const before = head;
    head += bytes.toString("latin1");
    const isWhole = (text: string): boolean =>
      text.includes("\r\n\r\n") && (!text.startsWith("POST") || text.endsWith("abc"));
    if (isWhole(before) || !isWhole(head)) return;
    void answer(socket, responseCase(Number(/ \/(\d+) /.exec(head)?.[1])));
  });
}

async function answer(socket: Socket, { pieces, ending }: ResponseCase): Promise<void> {
  await writePieces((piece) => void (socket.writable && socket.write(piece, "latin1")), pieces);
  if (ending === "close") socket.end();
  else if (ending === "reset") socket.resetAndDestroy();
}

async function ask(port: number, seed: number): Promise<string> {
  const { method } = responseCase(seed);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true }).on("error", () => {});
  let received = "";
  socket.setEncoding("latin1");
  socket.on("data", (text: string) => {
    received += text;
  });
  const timer = setTimeout(() => socket.destroy(), patienceMs);
  const body = method === "POST" ? "abc" : "";
  const length = body === "" ? "" : "Content-Length: 3\r\n";
  socket.write(`${method} /${seed} HTTP/1.1\r\nHost: a\r\n${length}Connection: close\r\n\r\n${body}`);
  await once(socket, "close");
  clearTimeout(timer);
  return received;
}

function judge(proxy: Proxy, seed: number, received: string, figures: ProxyFigures): void {
  const { bytes, method, marker, ending } = responseCase(seed);
  const ours = readOurResponse([bytes], method, ending === "close");
  const theirs = readingOf(received, method, marker, ours);
  const verdict = verdictOf(ours, theirs, ending);
  figures.verdicts[verdict] = (figures.verdicts[verdict] ?? 0) + 1;
  if (verdict !== "different" || proxy.misreads?.test(bytes) === true) return;
  const lines = [bytes, ours, theirs, received.slice(0, 400)].map((part) => JSON.stringify(part));
  figures.flaws.push(`seed ${seed}, ${method}, ${ending}, ours, ${proxy.name}:\n  ${lines.join("\n  ")}`);
}

function verdictOf(ours: ReadResponse, theirs: ReadResponse, ending: ResponseCase["ending"]): ProxyVerdict {
  // Whoever did not ask for an Upgrade makes nothing of a 101, and a reset may overtake what was written before it.
  if (ours.status === 101) return "we refuse";
  if (ending === "reset" && theirs.outcome === "refused") return "same";
  const isSame = ours.status === theirs.status && ours.body === theirs.body;
  if (ours.outcome === "waiting" && ending !== "close" && isSame) return "they end at a break";
  if (ours.outcome === "waiting") return theirs.outcome === "refused" ? "same" : "different";
  return compareResponses(ours, { ...theirs, ownBytes: ours.ownBytes });
}

function readingOf(received: string, method: string, marker: string, ours: ReadResponse): ReadResponse {
  const read = readStrictResponse(received, method, true);
  if (read.kind !== "whole") return { status: 0, body: "", outcome: "refused", ownBytes: 0 };
  // Its own answer does not have the upstream's field.
  const isOwn =
    read.status >= 500 && read.status !== ours.status && !valuesIn(read.fields, "x-marker").includes(marker);
  if (isOwn) return { status: 0, body: "", outcome: "refused", ownBytes: 0 };
  return { status: read.status, body: read.body, outcome: "whole", ownBytes: 0 };
}
