// Real backends with one path, /v2/login, each as its documentation shows it and with its defaults: what they serve from
// that path under other spellings.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fastify } from "fastify";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { startProcessGroup } from "../../support/process-group.ts";
import { accepts, isInstalled } from "../fuzz/backends/backend.ts";

export interface PathBackend {
  readonly name: string;
  /** Empty if it comes from npm. */
  readonly debianPackage: string;
  readonly isInstalled: boolean;
  /** Resolves with its port. It answers `login` at /v2/login, and 404 or anything else elsewhere. */
  start(cleanup: Cleanup): Promise<number>;
}

export const served = "login";

interface ExpressApp extends RequestListener {
  all(path: string, handle: (req: unknown, res: { send(body: string): unknown }) => unknown): unknown;
}

/** The package has no types of its own. */
const express = createRequire(import.meta.url)("express") as () => ExpressApp;

async function startExpress(cleanup: Cleanup): Promise<number> {
  const app = express();
  app.all("/v2/login", (_req, res) => res.send(served));
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function startFastify(cleanup: Cleanup): Promise<number> {
  const app = fastify({ forceCloseConnections: true });
  app.all("/v2/login", async () => served);
  await app.listen({ port: 0, host: "127.0.0.1" });
  cleanup(() => app.close());
  return (app.server.address() as AddressInfo).port;
}

interface Program {
  readonly command: string;
  readonly args: (folder: string, port: number) => readonly string[];
  readonly files: (folder: string, port: number) => Readonly<Record<string, string>>;
}

async function startProgram(cleanup: Cleanup, { command, args, files }: Program): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-paths-"));
  const port = await freePort();
  mkdirSync(join(folder, "www/v2"), { recursive: true });
  for (const [name, text] of Object.entries(files(folder, port))) writeFileSync(join(folder, name), text);
  const { child, end } = startProcessGroup(command, args(folder, port));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  cleanup(async () => {
    await end();
    rmSync(folder, { recursive: true, maxRetries: 3 });
  });
  await eventually(
    `${command} listens`,
    () => {
      if (child.exitCode !== null) throw new Error(`${command} did not start: ${output}`);
      return accepts(port);
    },
    20_000,
  );
  return port;
}

const nginx: Program = {
  command: "nginx",
  args: (folder) => ["-c", join(folder, "nginx.conf"), "-p", folder, "-e", join(folder, "errors")],
  files: (folder, port) => ({
    "nginx.conf": `
      ${process.getuid?.() === 0 ? "user root;" : ""}
      daemon off;
      worker_processes 1;
      pid ${folder}/pid;
      events { worker_connections 64; }
      http {
        access_log off;
        ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((use) => `${use}_temp_path ${folder}/${use};`).join(" ")}
        server {
          listen 127.0.0.1:${port};
          location = /v2/login { return 200 "${served}"; }
        }
      }`,
  }),
};

/** A file, as Apache serves by default. */
const apache: Program = {
  command: "apache2",
  args: (folder) => ["-X", "-f", join(folder, "apache.conf")],
  files: (folder, port) => ({
    "www/v2/login": served,
    "apache.conf": `
      ServerRoot ${folder}
      ServerName localhost
      Listen 127.0.0.1:${port}
      PidFile ${folder}/pid
      Mutex file:${folder}
      ErrorLog ${folder}/errors
      LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
      LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
      DocumentRoot ${folder}/www`,
  }),
};

const django: Program = {
  command: "/usr/bin/python3",
  args: (folder, port) => [join(folder, "app.py"), `${port}`],
  files: () => ({
    "app.py": `
import sys
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from wsgiref.simple_server import make_server
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", LOGGING_CONFIG=None,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"])
urlpatterns = [path("v2/login", lambda request: HttpResponse("${served}"))]
make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application()).serve_forever()
`,
  }),
};

const hasDjango = spawnSync("/usr/bin/python3", ["-c", "import django"]).status === 0;

export const pathBackends: readonly PathBackend[] = [
  { name: "Express", debianPackage: "", isInstalled: true, start: startExpress },
  { name: "Fastify", debianPackage: "", isInstalled: true, start: startFastify },
  {
    name: "nginx",
    debianPackage: "nginx-light",
    isInstalled: isInstalled("nginx"),
    start: (cleanup) => startProgram(cleanup, nginx),
  },
  {
    name: "Apache",
    debianPackage: "apache2",
    isInstalled: isInstalled("apache2"),
    start: (cleanup) => startProgram(cleanup, apache),
  },
  {
    name: "Django",
    debianPackage: "python3-django",
    isInstalled: hasDjango,
    start: (cleanup) => startProgram(cleanup, django),
  },
];
