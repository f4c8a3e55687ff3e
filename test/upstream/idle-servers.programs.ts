// Servers that close idle connections, each with its defaults: gunicorn after 2 seconds, uvicorn, Apache and Node after 5. POSTs
// come when the connections of the ones before have been idle for as long, and none is lost. Workers of gunicorn that end after a
// number of requests close connections at any time.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startBackend } from "../conformance/fuzz/backends/backend.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";

const { HEADGATE_REQUIRE, HEADGATE_IDLE_ROUNDS = "0" } = process.env;
const cleanup = useCleanup();

interface Server {
  readonly name: string;
  readonly needs: string;
  readonly isInstalled: boolean;
  readonly keepsMs: number;
  readonly command: string;
  readonly args: (folder: string, port: number) => readonly string[];
  readonly files: (folder: string, port: number) => Readonly<Record<string, string>>;
}

const hasModule = (name: string): boolean => spawnSync("/usr/bin/python3", ["-c", `import ${name}`]).status === 0;

const wsgi = `def app(environ, start_response):
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
`;

const asgi = `async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
`;

const gunicorn = (name: string, args: readonly string[]): Server => ({
  name: `gunicorn, ${name}`,
  needs: "gunicorn",
  isInstalled: hasModule("gunicorn"),
  keepsMs: 2_000,
  command: "/usr/bin/gunicorn",
  args: (folder, port) => ["-w", "2", ...args, "-b", `127.0.0.1:${port}`, "--chdir", folder, "app:app"],
  files: () => ({ "app.py": wsgi }),
});

const ending = gunicorn("threads that end", ["--threads", "4", "--max-requests", "40"]);

const servers: readonly Server[] = [
  gunicorn("threads", ["--threads", "4"]),
  gunicorn("sync", []),
  {
    ...gunicorn("workers of uvicorn", ["-k", "uvicorn.workers.UvicornWorker"]),
    needs: "gunicorn and python3-uvicorn",
    isInstalled: hasModule("gunicorn") && hasModule("uvicorn"),
    files: () => ({ "app.py": asgi }),
  },
  {
    name: "uvicorn",
    needs: "python3-uvicorn",
    isInstalled: hasModule("uvicorn"),
    keepsMs: 5_000,
    command: "/usr/bin/python3",
    args: (folder, port) => [
      ..."-m uvicorn --no-access-log --port".split(" "),
      `${port}`,
      "--app-dir",
      folder,
      "app:app",
    ],
    files: () => ({ "app.py": asgi }),
  },
  {
    name: "Apache",
    needs: "apache2",
    isInstalled: existsSync("/usr/sbin/apache2"),
    keepsMs: 5_000,
    command: "/usr/sbin/apache2",
    args: (folder) => ["-D", "FOREGROUND", "-f", `${folder}/config`],
    files: (folder, port) => ({
      config: `ServerRoot "${folder}"
ServerName 127.0.0.1
PidFile "${folder}/pid"
ErrorLog "${folder}/errors"
Listen 127.0.0.1:${port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
Redirect 204 /v2/x
`,
    }),
  },
  {
    name: "Node",
    needs: "Node",
    isInstalled: true,
    keepsMs: 5_000,
    command: process.execPath,
    args: (folder, port) => [`${folder}/server.mjs`, `${port}`],
    files: () => ({
      "server.mjs": `import { createServer } from "node:http";
const server = createServer((request, answer) => request.resume().on("end", () => answer.end("ok")));
server.listen(Number(process.argv[2]), "127.0.0.1");
`,
    }),
  },
];

const together = 24;
/** gunicorn listens before its workers have loaded the app, which takes long while six servers start at once. */
const patientMs = 60_000;

/** Sends POSTs, as many at once as there are clients. The first wakes a server that then closes what is old. */
async function post(clients: readonly RawConnection[]): Promise<(number | string)[]> {
  const body = { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" };
  for (const client of clients) client.write(request("/v2/x", body));
  return Promise.all(
    clients.map((client) => client.read({ deadlineMs: patientMs }).then(({ status }) => status, String)),
  );
}

type Upstream = Overrides["upstream"];

/** Each of the gaps, in milliseconds, follows POSTs and is followed by others. */
async function statusesAfter(url: string, gapsMs: readonly number[], upstream: Upstream): Promise<(number | string)[]> {
  const policies = [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })];
  const overrides = { policies, drain: { timeoutMs: 0 }, upstream: { responseTimeoutMs: patientMs, ...upstream } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: url, overrides }));
  const clients = Array.from({ length: together }, () => new RawConnection(gateway.traffic.port));
  for (const client of clients) cleanup(() => client.destroy());
  const statuses = await post(clients);
  for (const gapMs of gapsMs) {
    await sleep(gapMs);
    statuses.push(...(await post(clients)));
  }
  return statuses;
}

type Counts = Readonly<Record<string, number>>;

async function countAfter(server: Server, gapsMs: readonly number[], upstream?: Upstream): Promise<Counts> {
  let listensAt = 0;
  const started = await startBackend({
    command: server.command,
    args: (folder) => server.args(folder, listensAt),
    files: (folder, port) => {
      listensAt = port;
      return server.files(folder, port);
    },
    logsToOutput: true,
    shownAs: (sent) => sent,
    readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
  });
  cleanup(() => started.remove());
  const counts: Record<string, number> = {};
  for (const status of await statusesAfter(started.url, gapsMs, upstream)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** By default as many as fit into six seconds; HEADGATE_IDLE_ROUNDS: from 0.1 s before the server's end to 1.1 s after it. */
function gapsOf({ keepsMs }: Server): number[] {
  const rounds = Number(HEADGATE_IDLE_ROUNDS);
  if (rounds > 0) return Array.from({ length: rounds }, (_, i) => Math.round(keepsMs - 100 + (1_200 * i) / rounds));
  return keepsMs > 2_000 ? [keepsMs + 10] : [keepsMs + 50, keepsMs + 100];
}

const present = servers.filter(({ isInstalled }) => isInstalled || HEADGATE_REQUIRE === "all");
const missing = servers.filter((server) => !present.includes(server)).map(({ needs }) => needs);

test(`no POST is lost around the end of an idle connection${missing.length > 0 ? ` (needs ${missing.join(", ")})` : ""}`, {
  timeout: 180_000 + Number(HEADGATE_IDLE_ROUNDS) * 7_000,
}, async () => {
  const counted = await Promise.all(
    present.map(async (server) => [server.name, await countAfter(server, gapsOf(server))] as const),
  );
  const all = present.map((server) => {
    const posts = together * (gapsOf(server).length + 1);
    return [server.name, { [server.name === "Apache" ? 204 : 200]: posts }] as const;
  });
  expect(Object.fromEntries(counted)).toEqual(Object.fromEntries(all));
});

// A worker that ends reads nothing more from its connections, and closes them. About seven end during these POSTs.
test.skipIf(!ending.isInstalled && HEADGATE_REQUIRE !== "all")(
  "POSTs are lost to workers of gunicorn that end after --max-requests, and none with upstream.keepAlive: 0 (needs gunicorn)",
  async () => {
    const gapsMs = Array.from({ length: 11 }, () => 10);
    const counted = await Promise.all([countAfter(ending, gapsMs), countAfter(ending, gapsMs, { keepAliveMs: 0 })]);
    expect(counted).toEqual([{ 200: expect.any(Number), 502: expect.any(Number) }, { 200: 12 * together }]);
  },
);
