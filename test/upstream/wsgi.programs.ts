// Bodies in chunks before WSGI, as the table of docs/applications.md says: which server and which framework takes them, and that the
// gateway passes the chunks on.
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { startBackend } from "../conformance/fuzz/backends/backend.ts";
import { read } from "../docs/markdown.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";

const cleanup = useCleanup();
const isRequired = process.env["HEADGATE_REQUIRE"] === "all";

/** `django` reads as Django 3.2 does, `flask` as Werkzeug does: to the end if the server says that it ends. */
const files = {
  "apps.py": `
import sys
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", LOGGING_CONFIG=None, MIDDLEWARE=[])
urlpatterns = [re_path(".*", lambda request: HttpResponse(str(len(request.body))))]
django = get_wsgi_application()

def flask(environ, start_response):
    length, stream = environ.get("CONTENT_LENGTH"), environ["wsgi.input"]
    body = stream.read() if environ.get("wsgi.input_terminated") else stream.read(int(length or 0))
    text = str(len(body)).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]

def both(environ, start_response):
    return (django if environ["PATH_INFO"] == "/v2/django" else flask)(environ, start_response)

if __name__ == "__main__":
    server, port = sys.argv[1], int(sys.argv[2])
    if server == "waitress":
        import waitress
        waitress.serve(both, listen="127.0.0.1:%d" % port)
    elif server == "runserver":
        from django.core.management import execute_from_command_line
        execute_from_command_line(["x", "runserver", "--noreload", "127.0.0.1:%d" % port])
    else:
        from wsgiref.simple_server import make_server
        make_server("127.0.0.1", port, both).serve_forever()
`,
};

const python = "/usr/bin/python3";
const servers: Readonly<Record<string, (port: number) => readonly [command: string, ...args: string[]]>> = {
  gunicorn: (port) => [python, "-m", "gunicorn", "-b", `127.0.0.1:${port}`, "apps:both"],
  "gunicorn --threads 4": (port) => [
    python,
    "-m",
    "gunicorn",
    "--threads",
    "4",
    "-b",
    `127.0.0.1:${port}`,
    "apps:both",
  ],
  waitress: (port) => [python, "apps.py", "waitress", `${port}`],
  wsgiref: (port) => [python, "apps.py", "wsgiref", `${port}`],
  runserver: (port) => [python, "apps.py", "runserver", `${port}`],
};

const isInstalled = spawnSync(python, ["-c", "import django, gunicorn, waitress"]).status === 0;

/** Rows of the page: the server, then "the body" or "nothing" for Django and for Flask. */
const [, table = ""] = /^### WSGI.*?^(\| server .*?)\n\n/ms.exec(read("docs/applications.md")) ?? [];
const rows = [...table.matchAll(/^\| `?([^|`]+?)`? \| ([^|]+) \| ([^|]+) \|$/gm)]
  .map(([, server = "", django = "", flask = ""]) => ({ server: server.replace("manage.py ", ""), django, flask }))
  .filter(({ server }) => Object.hasOwn(servers, server));

test("the page has each of the servers", () => {
  expect(rows.map(({ server }) => server).toSorted()).toEqual(Object.keys(servers).toSorted());
});

const skip = !isInstalled && !isRequired;

test.skipIf(skip)("each row is so (needs gunicorn, python3-django, python3-waitress)", async () => {
  const seen = await Promise.all(
    rows.map(async ({ server, flask }) => {
      const gateway = await startBefore(server);
      const of = (app: string): Promise<string> => bodyOf(gateway, app);
      return { server, django: await of("django"), flask: flask === "–" ? flask : await of("flask") };
    }),
  );
  expect(seen).toEqual(rows);
});

/** gunicorn listens before its workers have loaded the apps, which takes long while seven of them load at once. */
const patientMs = 60_000;

async function startBefore(server: string): Promise<TestGateway> {
  let args: readonly string[] = [];
  const started = await startBackend({
    command: "sh",
    args: (folder) => ["-c", `cd ${folder} && exec "$@"`, "sh", ...args],
    files(_folder, port) {
      args = servers[server]?.(port) ?? [];
      return files;
    },
    logsToOutput: true,
    shownAs: (sent) => sent,
    readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
  });
  cleanup(() => started.remove());
  const overrides = { drain: { timeoutMs: 0 }, upstream: { responseTimeoutMs: patientMs } };
  return cleanup(await startTestGateway({ upstreamUrl: started.url, overrides }));
}

/** What an app gets of bodies in chunks. With a length it always gets the whole body. */
async function bodyOf(gateway: TestGateway, app: string): Promise<string> {
  const got = new Set<string>();
  for (const isChunked of [true, false]) {
    for (const size of [20, 100_000]) {
      const client = cleanup(new RawConnection(gateway.traffic.port));
      const body = "x".repeat(size);
      const chunks = `${size.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      const fields = isChunked ? "Transfer-Encoding: chunked\r\n" : `Content-Length: ${size}\r\n`;
      client.write(request(`/v2/${app}`, { method: "POST", fields, body: isChunked ? chunks : body }));
      const answer = await client.read({ deadlineMs: patientMs });
      const said = answer.status === 200 && answer.body === `${size}` ? "the body" : `${answer.status} ${answer.body}`;
      if (isChunked) got.add(said === "200 0" ? "nothing" : said);
      else expect([app, said]).toEqual([app, "the body"]);
    }
  }
  return [...got].join(", ");
}
