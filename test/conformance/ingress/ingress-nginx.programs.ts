// Debian's nginx with the location that the controller ingress-nginx generates of the annotation auth-url, for a server that
// takes any host: what it sends, what its client gets, and what a client can do with Host and the target.
import { describe, expect, test } from "vitest";
import { landsUnder, pathReaders } from "../../core/path-readers.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../../support/raw-connection.ts";
import { isInstalled } from "../fuzz/backends/backend.ts";
import { nginxFrame } from "../programs.ts";
import { type RecordingUpstream, startRecordingUpstream } from "../recording-upstream.ts";
import { nginx, type Plan, start } from "./ingresses.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const runs = test.skipIf(!isInstalled("nginx", "-v") && HEADGATE_REQUIRE !== "all");
const needs = "(needs nginx: apt-get install nginx-light)";

/** `method`: the annotation auth-method, which also makes the template name the target in X-Original-URI. */
const generated = (method: string | null): Plan => ({
  ...nginx,
  files: {},
  changes: () => [],
  timeouts: [],
  frame: ({ folder, port, extAuthPort, backendPort }) => ({
    "nginx.conf": nginxFrame(
      folder,
      `server {
        server_name _;
        listen 127.0.0.1:${port} default_server;
        location = /_external-auth-Lw-Prefix {
          internal;
          proxy_intercept_errors off;
          proxy_pass_request_body off;
          proxy_set_header Content-Length "";
          proxy_set_header X-Forwarded-Proto "";
          proxy_set_header X-Request-ID $request_id;
          ${method === null ? "" : `proxy_method ${method}; proxy_set_header X-Original-URI $request_uri; proxy_set_header X-Scheme $scheme;`}
          proxy_set_header Host headgate.finance.svc.cluster.local;
          proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
          proxy_set_header X-Original-Method $request_method;
          proxy_set_header X-Sent-From "nginx-ingress-controller";
          proxy_set_header X-Real-IP $remote_addr;
          proxy_set_header X-Forwarded-For $remote_addr;
          proxy_set_header X-Auth-Request-Redirect $request_uri;
          proxy_ssl_server_name on;
          proxy_pass_request_headers on;
          proxy_http_version 1.1;
          set $target "http://127.0.0.1:${extAuthPort}/auth-request";
          proxy_pass $target;
        }
        location / {
          auth_request /_external-auth-Lw-Prefix;
          auth_request_set $auth_cookie $upstream_http_set_cookie;
          add_header Set-Cookie $auth_cookie;
          proxy_set_header Host $http_host;
          proxy_set_header X-Forwarded-For $remote_addr;
          proxy_http_version 1.1;
          proxy_pass http://127.0.0.1:${backendPort};
        }
      }`,
    ),
  }),
});

interface Stage {
  readonly gateway: TestGateway;
  readonly backend: RecordingUpstream;
  /** Over a connection that is kept while it can be. Null: nginx closed it without an answer. */
  send(head: string): Promise<FramedResponse | null>;
}

async function stage(method: string | null, denyStatus: 429 | 403, limit: number): Promise<Stage> {
  const backend = cleanup(await startRecordingUpstream());
  const http = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const gateway = await startTestGateway({
    upstreamUrl: backend.url,
    overrides: {
      extAuth: { http, trustedCallers: ["127.0.0.1"], denyStatus },
      policies: [slidingPolicy({ limit, windowMs: 3_600_000 })],
      refusals: { perSecond: 10_000, burst: 10_000 },
      drain: { timeoutMs: 0 },
    },
  });
  cleanup(() => gateway.close());
  const around = { extAuthPort: gateway.extAuth?.port ?? 0, backendPort: Number(new URL(backend.url).port) };
  const { port } = await start(cleanup, generated(method), { ...around, whenDown: "closed" });
  let connection = new RawConnection(port);
  cleanup(() => connection.destroy());
  const send = async (head: string): Promise<FramedResponse | null> => {
    const answer = await connection.ask(head).catch(() => null);
    if (answer === null || /close/i.test(valuesOf(answer.rawHeaders, "Connection").join())) {
      connection.destroy();
      connection = new RawConnection(port);
    }
    return answer;
  };
  return { gateway, backend, send };
}

const get = (target: string, host = "api.example.com", more = ""): string =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer x\r\n${more}\r\n`;
const checksOf = ({ gateway }: Stage) => gateway.logLines.filter(({ source }) => source === "ext-auth");

describe.each([null, "GET"])("auth-method: %s", (method) => {
  runs(`the annotation works, and each check is decided for the client's target ${needs}`, async () => {
    const staged = await stage(method, 403, 2);
    for (const target of ["/v2/me?x=1", "/v1/x"]) expect((await staged.send(get(target)))?.status).toBe(200);
    expect(checksOf(staged).map(({ path, method, client }) => [path, method, client])).toEqual([
      ["/v2/me", "GET", "127.0.0.1"],
      ["/v1/x", "GET", "127.0.0.1"],
    ]);
    expect(staged.backend.take().map(({ lines }) => lines[0])).toEqual([
      "GET /v2/me?x=1 HTTP/1.1",
      "GET /v1/x HTTP/1.1",
    ]);
    const over = await staged.send(get("/v2/me"));
    expect([over?.status, valuesOf(over?.rawHeaders ?? [], "Retry-After")]).toEqual([403, []]);
    expect(staged.backend.take()).toEqual([]);
  });

  runs(
    `a refusal is 403 with denyStatus 403, and 500 with the default; a 401 passes with its challenge ${needs}`,
    async () => {
      for (const [denyStatus, seen] of [
        [403, 403],
        [429, 500],
      ] as const) {
        const { send } = await stage(method, denyStatus, 2);
        const statusOf = async (head: string): Promise<number | undefined> => (await send(head))?.status;
        expect([denyStatus, await statusOf(get("/v2/x"))]).toEqual([denyStatus, 200]);
        const noToken = await send("GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n");
        expect([denyStatus, noToken?.status]).toEqual([denyStatus, 401]);
        expect(valuesOf(noToken?.rawHeaders ?? [], "WWW-Authenticate")).toHaveLength(1);
        expect([denyStatus, await statusOf(get("/v2/x"))]).toEqual([denyStatus, seen]);
        expect([denyStatus, await statusOf(get("/elsewhere"))]).toEqual([denyStatus, seen]);
      }
    },
  );

  runs(`no spelling of Host and target opens a path or moves one ${needs}`, async () => {
    const staged = await stage(method, 403, 1_000_000);
    const wrong: string[] = [];
    let sent = 0;
    let arrived = 0;
    for (const [i, host] of hosts.entries()) {
      for (const [j, target] of targets.entries()) {
        // With it, two fields say the same: a third of them is enough.
        if (method !== null && (i + j) % 3 !== 0) continue;
        const more = lies[(i + j) % lies.length] ?? "";
        const before = staged.gateway.logLines.length;
        const answer = await staged.send(get(target, host, more));
        sent += 1;
        const [request] = staged.backend.take();
        if (request === undefined) continue;
        arrived += 1;
        const got = request.lines[0]?.slice("GET ".length, -" HTTP/1.1".length) ?? "";
        const checks = staged.gateway.logLines.slice(before).filter(({ source }) => source === "ext-auth");
        const about = checks.map(({ path, status }) => `${path} ${status}`).join();
        // The log leaves out whatever may be a query.
        const [path] = got.split(/[?#]|%3f|%23/i, 1);
        if (about !== `${path} 200` || landings(got).length === 0 || answer?.status !== 200)
          wrong.push(`${host} ${target} ${more.trim()}: ${got} arrived, decided ${about}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(sent).toBeGreaterThan(method === null ? 2_000 : 600);
    expect(arrived, "some of them are good requests").toBeGreaterThan(100);
  });
});

/** Hosts that a server for any host takes, and some that it does not. */
const hosts = [
  ..."api.example.com a. a:80 a: a:99999 a:b a:80:81 [::1] [::1]:80 [::1 ::1 . .. - _ * 127.1 0x7f.1 %61 a%2f a%3f".split(
    " ",
  ),
  ..."a? a?x a?&x=/v2/me a# a#x u@a u:p@a a@v2 @ a\\ a\\v2\\me a; a;b a,b a&b a=b a+b a~b a!b a'b a(b) a*b $host a|b".split(
    " ",
  ),
  ...'a<b> a"b a`b a^b a{b} http: http:a https:a a%00 a%2fv2%2fme a?%2fv2%2fme \\a v2 %2fv2%2fme'.split(" "),
  ...["", "a b", "a\tb", "a\xff", "\xe9.test", `${"a".repeat(300)}`, "a/v2/me", "/v2/me", "a, b", "a\r\nHost: b"],
];

const targets = [
  ..."/v2/me /v2/me?x=1 /v1/x / /health //v2/me /x/../v2/me /v2/../health /v2/%2e%2e/health /%76%32/me /V2/me".split(
    " ",
  ),
  ..."/v2/me#x /health#/v2/me /health?/v2/me /health;/v2/me /v2;/..;/health /v1/..%2fv2/x /v2\\..\\health /v2%2fme".split(
    " ",
  ),
  ..."http://a/v2/me http://a?x=1 http://a?/v2/me http://a http://a#/v2/me HTTP://A/v2/me https://b:443/v2/x".split(
    " ",
  ),
  ..."http://a:80/health http://a//v2/me http://u@a/v2/me http://a?x/v2/me http:/v2/me http://[::1]/v2/me".split(" "),
  ..."ftp://a/v2/me * a:80 v2/me ?/v2/me /v2/a%3fb /v2/a%23b".split(" "),
];

/** What a client may send beside them. */
const lies = [
  "",
  "",
  "X-Original-URI: /v2/me\r\n",
  "X-Original-URL: http://a/v2/me\r\n",
  "X-Original-URI: /v2/me\r\nX-Original-URL: http://a/v2/me\r\nX-Original-Method: OPTIONS\r\n",
  "X-Original_URI: /v2/me\r\nX-Forwarded-Uri: /v2/me\r\nX-Forwarded-Method: GET\r\n",
  "Connection: X-Original-URL, X-Original-Method, X-Original-URI\r\n",
];

/** The routes under which one of the readers of the path tests finds the target. */
const landings = (target: string): string[] =>
  pathReaders.flatMap(({ read }) => landsUnder(read(target.replace(/\?.*$/s, "")), ["/v1/", "/v2/"]) ?? []);
