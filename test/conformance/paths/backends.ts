// Real backends with one path, /v2/login, each as its documentation shows it and with its defaults: what they serve from
// that path under other spellings.
import { spawnSync } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fastify } from "fastify";
import type { Cleanup } from "../../support/cleanup.ts";
import { listen } from "../../support/loopback-server.ts";
import { isInstalled } from "../fuzz/backends/backend.ts";
import { nginxArgs, nginxFrame, type Program, startProgram } from "../programs.ts";

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
  return listen(cleanup(createServer(app)));
}

async function startFastify(cleanup: Cleanup): Promise<number> {
  const app = fastify({ forceCloseConnections: true });
  app.all("/v2/login", async () => served);
  await app.listen({ port: 0, host: "127.0.0.1" });
  cleanup(() => app.close());
  return (app.server.address() as AddressInfo).port;
}

const nginx: Program = {
  command: "nginx",
  args: nginxArgs,
  files: (folder, port) => ({
    "nginx.conf": nginxFrame(
      folder,
      `server {
        listen 127.0.0.1:${port};
        location = /v2/login { return 200 "${served}"; }
      }`,
    ),
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

const portOf = (program: Program) => async (cleanup: Cleanup) => (await startProgram(cleanup, program)).port;

const hasDjango = spawnSync("/usr/bin/python3", ["-c", "import django"]).status === 0;

export const pathBackends: readonly PathBackend[] = [
  { name: "Express", debianPackage: "", isInstalled: true, start: startExpress },
  { name: "Fastify", debianPackage: "", isInstalled: true, start: startFastify },
  {
    name: "nginx",
    debianPackage: "nginx-light",
    isInstalled: isInstalled("nginx"),
    start: portOf(nginx),
  },
  {
    name: "Apache",
    debianPackage: "apache2",
    isInstalled: isInstalled("apache2"),
    start: portOf(apache),
  },
  {
    name: "Django",
    debianPackage: "python3-django",
    isInstalled: hasDjango,
    start: portOf(django),
  },
];
