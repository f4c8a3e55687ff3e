// Upstreams that go by a name of their own: Apache with two hosts by TLS on one port, and Django, which is told to believe
// X-Forwarded-Host.
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { type Backend, startBackend } from "../conformance/fuzz/backends/backend.ts";
import { startTestApp } from "../fastify/app.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, startTestGateway, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { useTls } from "../support/tls-listener.ts";
import { hasApache, startApache } from "./apache.ts";

const cleanup = useCleanup();
const tls = useTls();
const isRequired = process.env["HEADGATE_REQUIRE"] === "all";
const skip = !hasApache && !isRequired;

async function startTwoHosts(authority: Authority): Promise<Backend> {
  const host = (name: string, folder: string, port: number): string => {
    const { certFile, keyFile } = authority.issue({ names: [`DNS:${name}`, "IP:127.0.0.1"] });
    return `<VirtualHost 127.0.0.1:${port}>
ServerName ${name}
DocumentRoot ${folder}/${name}
SSLEngine on
SSLCertificateFile ${certFile}
SSLCertificateKeyFile ${keyFile}
</VirtualHost>
`;
  };
  return startApache(cleanup, {
    modules: ["ssl"],
    files: { "api.example/v2/x": "api", "b.example/v2/x": "b" },
    config: (folder, port) => host("api.example", folder, port) + host("b.example", folder, port),
  });
}

const ask = (host: string): string => `GET /v2/x HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer t\r\n\r\n`;

describe.skipIf(skip)("Apache with two hosts by TLS on one port (needs apache2)", () => {
  const byName = { url: "https://b.example", hasAddress: true };
  const byAddress = { url: "https://127.0.0.1", hasAddress: false };
  const cases: readonly (readonly [
    name: string,
    at: typeof byName,
    upstream: { readonly serverName?: string; readonly hostHeader?: string },
    host: string,
    expected: readonly [status: number, body: string],
  ])[] = [
    ["SNI b.example", byAddress, { serverName: "b.example" }, "gw.internal", [421, ""]],
    ["SNI b.example", byAddress, { serverName: "b.example" }, "api.example", [421, ""]],
    ["SNI b.example", byAddress, { serverName: "b.example" }, "b.example", [200, "b"]],
    [
      "SNI b.example, named",
      byAddress,
      { serverName: "b.example", hostHeader: "name:b.example" },
      "gw.internal",
      [200, "b"],
    ],
    ["SNI b.example, url", byAddress, { serverName: "b.example", hostHeader: "url" }, "gw.internal", [421, ""]],
    ["no SNI", byAddress, {}, "b.example", [421, ""]],
    ["no SNI, named", byAddress, { hostHeader: "name:b.example" }, "gw.internal", [421, ""]],
    ["SNI of the URL", byName, {}, "gw.internal", [421, ""]],
    ["SNI of the URL, url", byName, { hostHeader: "url" }, "gw.internal", [200, "b"]],
  ];

  test("421 if SNI and Host differ, 200 with hostHeader", async () => {
    const authority = new Authority(cleanup);
    const { port } = await startTwoHosts(authority);
    for (const [name, { url, hasAddress }, { serverName = null, hostHeader = "client" }, host, expected] of cases) {
      const upstreamUrl = `${url}:${port}`;
      const tls = { ...testSettings(upstreamUrl).upstream.tls, ca: authority.certFile, serverName };
      const addresses = hasAddress ? [`127.0.0.1:${port}`] : [];
      const overrides: Overrides = { drain: { timeoutMs: 0 }, upstream: { hostHeader, tls, addresses } };
      const gateway = cleanup(await startTestGateway({ upstreamUrl, overrides }));
      const { status, body } = await cleanup(new RawConnection(gateway.traffic.port)).ask(ask(host));
      expect([name, hostHeader, host, status, status === 200 ? body : ""]).toEqual([
        name,
        hostHeader,
        host,
        ...expected,
      ]);
      await eventually("it is logged", () => gateway.logLines.some(({ msg }) => msg === "request"));
      const detail = gateway.logLines.find(({ msg }) => msg === "request")?.["detail"] ?? "";
      expect(String(detail).includes("upstream.hostHeader")).toBe(status === 421);
    }
  });

  test("the plugin", async () => {
    const authority = new Authority(cleanup);
    const { port } = await startTwoHosts(authority);
    const tls = { ca: authority.certFile, serverName: "b.example" };
    for (const [hostHeader, expected] of [
      ["client", 421],
      ["name:b.example", 200],
    ] as const) {
      const url = `https://127.0.0.1:${port}`;
      // A busy machine keeps a server from its processor in the middle of a handshake.
      const options = { routes: ["/v2/"], upstream: { url, hostHeader, tls, connectTimeout: "30s" } };
      const client = (await startTestApp(cleanup, { options })).connect();
      expect((await client.ask(ask("gw.internal"))).status).toBe(expected);
    }
  });
});

const python = "/usr/bin/python3";
const hasDjango = spawnSync(python, ["-c", "import django"]).status === 0;
const app = `
import sys
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
from wsgiref.simple_server import make_server
more = dict(USE_X_FORWARDED_HOST=True, SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"))
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", LOGGING_CONFIG=None, MIDDLEWARE=[],
    **(more if sys.argv[2] == "told" else {}))
urlpatterns = [re_path(".*", lambda request: HttpResponse(request.build_absolute_uri("/v2/next")))]
make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application()).serve_forever()
`;

describe.skipIf(!hasDjango && !isRequired)("Django with hostHeader url (needs python3-django)", () => {
  test.each(["told", "untold"])("%s of X-Forwarded-Host: whose host its absolute URLs have", async (isTold) => {
    let at = 0;
    const started = await startBackend({
      command: python,
      args: (folder) => [`${folder}/app.py`, `${at}`, isTold],
      files(_folder, port) {
        at = port;
        return { "app.py": app };
      },
      logsToOutput: true,
      shownAs: (sent) => sent,
      readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
    });
    cleanup(() => started.remove());
    const { ca, overrides } = tls();
    const more = { drain: { timeoutMs: 0 }, upstream: { hostHeader: "url" } };
    const gateway = cleanup(await startTestGateway({ upstreamUrl: started.url, overrides: { ...overrides, ...more } }));
    const client = new Http2Client(gateway.traffic.port, ca, cleanup);
    const { body } = await client.ask({ fields: { ":authority": "public.example" } });
    expect(body).toBe(`${isTold === "told" ? "https://public.example" : started.url}/v2/next`);
  });
});
