// The shipped configurations of nginx, Caddy and HAProxy, run as they stand between a client and a backend, with the
// gateway to ask: what the client sees is what the gateway meant.
import { describe, expect, test } from "vitest";
import type { ErrorFormat } from "../../../src/core/local-reply.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { errorContent, expectContractFields } from "../../support/contract-fields.ts";
import { freePort } from "../../support/free-port.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../../support/raw-connection.ts";
import { request } from "../../support/stage.ts";
import { startRawUpstream, startUpstream, type TestUpstream } from "../../support/upstream.ts";
import { type Ingress, ingresses } from "./ingresses.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const isMissing = ({ isInstalled }: Ingress): boolean => !isInstalled && HEADGATE_REQUIRE !== "all";

const throttledBody =
  '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}';
const closedBody =
  '{"message":"Service Unavailable","errors":[{"errMsg":"The service is overloaded, please try again later."}]}';

interface Stage {
  readonly gateway: TestGateway;
  /** Of the gateway: it stands still, however long the programs take. */
  readonly clock: FakeClock;
  readonly backend: TestUpstream;
  /** One request over a connection that is kept from one to the next. */
  send(text: string, method?: string): Promise<FramedResponse>;
}

interface Choices {
  readonly whenDown?: "closed" | "open";
  readonly denyStatus?: 429 | 403;
  readonly trustedCallers?: readonly string[];
  readonly errorFormat?: ErrorFormat;
  readonly origins?: readonly string[];
}

const page = "https://app.example";

/** A backend that says something about the quota itself: the gateway's word counts. */
async function behindGateway(choices: Choices): Promise<Pick<Stage, "gateway" | "clock" | "backend">> {
  const backend = await startUpstream((_req, res, body) => {
    res.writeHead(200, { "RateLimit-Limit": "7", "X-RateLimit-Reset": "7", "X-Own": "kept" }).end(`got ${body}`);
  });
  cleanup(() => backend.close());
  // When the gateway has stopped, no other test is given its port.
  const http = { host: "127.0.0.1", port: await freePort(), maxConnections: 100 };
  const { denyStatus = 429, trustedCallers = ["127.0.0.1"], errorFormat: format = "v2", origins = [] } = choices;
  const extAuth = { http, trustedCallers, denyStatus };
  const overrides = { extAuth, cors: { origins }, drain: { timeoutMs: 0 }, errors: { format } };
  const clock = new FakeClock();
  const gateway = cleanup(await startTestGateway({ upstreamUrl: backend.url, clock, overrides }));
  return { gateway, clock, backend };
}

async function stage(ingress: Ingress, choices: Choices = {}): Promise<Stage> {
  const { gateway, clock, backend } = await behindGateway(choices);
  const { port } = await ingress.start(cleanup, {
    extAuthPort: gateway.extAuth?.port ?? 0,
    backendPort: Number(new URL(backend.url).port),
    whenDown: choices.whenDown ?? "closed",
  });
  return { gateway, clock, backend, send: sender(port) };
}

function sender(port: number): Stage["send"] {
  let connection = new RawConnection(port);
  cleanup(() => connection.destroy());
  return async (text, method = "GET") => {
    if (connection.ending !== null) connection = new RawConnection(port);
    const answer = await connection.ask(text, { method });
    if (valuesOf(answer.rawHeaders, "Connection").join().toLowerCase().includes("close")) await connection.closed;
    return answer;
  };
}

describe.each(ingresses)("$name", (ingress) => {
  const { name, debianPackage, spelling } = ingress;
  const runs = test.skipIf(isMissing(ingress));
  const needs = `(needs ${name}: apt-get install ${debianPackage})`;

  runs(`100 are admitted and the 101st is the exact 429, all with all fields ${needs}`, async () => {
    const { send, backend, clock } = await stage(ingress);
    for (let sent = 1; sent <= 100; sent += 1) {
      const answer = await send(request("/v2/x?a=%20b"));
      expect([answer.status, answer.body]).toEqual([200, "got "]);
      expectContractFields(answer, { limit: 100, remaining: 100 - sent }, spelling, clock.wallMs());
      expect(valuesOf(answer.rawHeaders, "X-Own")).toEqual(["kept"]);
    }
    const refused = await send(request("/v2/x"));
    expect([refused.status, refused.body]).toEqual([429, throttledBody]);
    expectContractFields(refused, { limit: 100, remaining: 0 }, spelling, clock.wallMs());
    expect(valuesOf(refused.rawHeaders, "Retry-After")).toEqual(["60"]);
    expect(valuesOf(refused.rawHeaders, "Cache-Control")).toEqual(["no-store"]);
    expect(valuesOf(refused.rawHeaders, "Content-Type")).toEqual(["application/json; charset=utf-8"]);
    expect(backend.received).toHaveLength(100);
    expect(backend.received[0]?.target).toBe("/v2/x?a=%20b");
  });

  runs.each([429, 403] as const)(
    `refusals are what the proxy would say, with denyStatus %i ${needs}`,
    async (denyStatus) => {
      const { send, backend, clock } = await stage(ingress, { denyStatus });
      const noToken = await send("GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n");
      expect([noToken.status, JSON.parse(noToken.body).message]).toEqual([401, "Unauthorized"]);
      expect(valuesOf(noToken.rawHeaders, "WWW-Authenticate")).toEqual(['Bearer realm="finance"']);
      expectContractFields(noToken, { limit: 100, remaining: 99 }, spelling, clock.wallMs());
      const noRoute = await send(request("/elsewhere"));
      expect([noRoute.status, JSON.parse(noRoute.body).message]).toEqual([404, "Not Found"]);
      expectContractFields(noRoute, { limit: 100, remaining: 99 }, spelling, clock.wallMs());
      const ambiguous = await send(request("/v2/a%2f..%2f..%2fv1/x"));
      expect([ambiguous.status, JSON.parse(ambiguous.body).message]).toEqual([400, "Bad Request"]);
      expect(backend.received).toEqual([]);
    },
  );

  // nginx discards the body of a refusal: its file has bodies of its own, in v2.
  runs.each<ErrorFormat>(["problem", "plain"])(`a refusal in the format %s ${needs}`, async (errorFormat) => {
    const { send } = await stage(ingress, { errorFormat });
    const { status, rawHeaders, body } = await send(request("/elsewhere"));
    const made = errorContent(
      name === "nginx" ? "v2" : errorFormat,
      404,
      "Not Found",
      "There is nothing at this path.",
    );
    expect([status, body, valuesOf(rawHeaders, "Content-Type")]).toEqual([404, made[0], [made[1]]]);
  });

  runs(`a page of a listed origin passes with its preflight, and may read a refusal ${needs}`, async () => {
    const { send, backend } = await stage(ingress, { origins: [page] });
    const preflight = `Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization\r\n`;
    const asking = (method: string, fields: string): Promise<FramedResponse> =>
      send(`${method} /v2/x HTTP/1.1\r\nHost: a\r\nOrigin: ${page}\r\n${fields}\r\n`);
    expect((await asking("OPTIONS", preflight)).status).toBe(200);
    const refused = await asking("GET", "");
    expect(refused.status).toBe(401);
    expect(valuesOf(refused.rawHeaders, "Access-Control-Allow-Origin")).toEqual([page]);
    expect(valuesOf(refused.rawHeaders, "Access-Control-Expose-Headers")).toEqual([
      expect.stringContaining("RateLimit-Remaining"),
    ]);
    expect(valuesOf(refused.rawHeaders, "Vary")).toEqual(["Origin"]);
    const stranger = await send("GET /v2/x HTTP/1.1\r\nHost: a\r\nOrigin: https://b\r\n\r\n");
    expect(valuesOf(stranger.rawHeaders, "Access-Control-Allow-Origin")).toEqual([]);
    expect(backend.received.map(({ method }) => method)).toEqual(["OPTIONS"]);
  });

  runs(`no field of a client's is believed, and a body passes ${needs}`, async () => {
    const { send, backend, gateway } = await stage(ingress);
    const lies = ["X-Original-URI: /x", "X-Forwarded-Uri: /x", "X-Original-Method: GET", "X-Forwarded-Method: GET"];
    const fields = [...lies, "X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7", "Content-Length: 5"];
    const text = request("/v2/x", {
      method: "POST",
      fields: fields.map((line) => `${line}\r\n`).join(""),
      body: "hello",
    });
    expect((await send(text)).body).toBe("got hello");
    expect((await send(text)).status).toBe(200);
    expect(backend.received.map(({ method }) => method)).toEqual(["POST", "POST"]);
    const line = gateway.logLines.find(({ source }) => source === "ext-auth");
    expect(line).toMatchObject({ client: "127.0.0.1", method: "POST", path: "/v2/x", remaining: 99 });
    expect((await send(request("/v2/x", { method: "HEAD" }), "HEAD")).status).toBe(200);
  });

  runs(`what a client names in Connection changes neither the question nor who is charged ${needs}`, async () => {
    const { send, backend, gateway } = await stage(ingress);
    const names = "X-Forwarded-For X-Forwarded-Uri X-Forwarded-Method X-Original-URI X-Original-Method X-Real-IP Host";
    for (const named of [...names.split(" "), names.replaceAll(" ", ", ")]) {
      expect([named, (await send(request("/v2/x", { fields: `Connection: ${named}\r\n` }))).status]).toEqual([
        named,
        200,
      ]);
    }
    expect(backend.received).toHaveLength(8);
    const lines = gateway.logLines.filter(({ source }) => source === "ext-auth");
    expect(lines.map(({ client, path, remaining }) => [client, path, remaining])).toEqual(
      lines.map((_, i) => ["127.0.0.1", "/v2/x", 99 - i]),
    );
  });

  runs(`spellings, chunks, Expect and Upgrade change nothing about the count ${needs}`, async () => {
    const { send, gateway } = await stage(ingress);
    const webSocket =
      "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    const chunked = "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n";
    const answers = [
      await send(request("//V2/x")),
      await send(request("/v2/x", { fields: webSocket })),
      await send(request("/%76%32/./x", { method: "POST", fields: "Content-Length: 5\r\n", body: "hello" })),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const body = "5\r\nhello\r\n0\r\n\r\n";
    let last = await send(request("/v1/x", { method: "POST", fields: chunked, body }));
    while (last.status === 100) last = await send("");
    expect([last.status, last.body]).toEqual([200, "got hello"]);
    const lines = gateway.logLines.filter(({ source }) => source === "ext-auth");
    expect(lines.map(({ remaining }) => remaining)).toEqual([99, 98, 97, 96]);
    expect(lines.map(({ route }) => route)).toEqual(["/v2/", "/v2/", "/v2/", "/v1/"]);
  });

  runs(`the gateway stopped: closed refuses with 503, and nothing reaches the backend ${needs}`, async () => {
    const { send, backend, gateway } = await stage(ingress);
    expect((await send(request("/v2/x"))).status).toBe(200);
    await gateway.close();
    const answer = await send(request("/v2/x"));
    expect([answer.status, answer.body]).toEqual([503, closedBody]);
    expect(valuesOf(answer.rawHeaders, "RateLimit-Limit")).toEqual([]);
    expect(backend.received).toHaveLength(1);
  });

  runs(`a gateway that does not trust its caller refuses everybody with 403, also with open ${needs}`, async () => {
    const { send, backend, gateway } = await stage(ingress, { whenDown: "open", trustedCallers: ["192.0.2.1"] });
    const answer = await send(request("/v2/x"));
    expect([answer.status, JSON.parse(answer.body).message]).toEqual([403, "Forbidden"]);
    expect(backend.received).toEqual([]);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(metrics).toContain('headgate_ext_auth_checks_total{outcome="untrusted"} 1\n');
    expect(gateway.logLines).toContainEqual(expect.objectContaining({ reason: "untrusted", caller: "127.0.0.1" }));
  });

  runs(`a gateway that fails or hangs counts as stopped, within seconds ${needs}`, async () => {
    const backend = cleanup(await startUpstream());
    const failing = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    const calls: string[] = [];
    const sick = await startRawUpstream((socket, data) => {
      calls.push(String(data));
      if (calls.length === 1) socket.write(failing);
    });
    cleanup(() => sick.close());
    const around = { extAuthPort: Number(new URL(sick.url).port), backendPort: Number(new URL(backend.url).port) };
    const { port } = await ingress.start(cleanup, { ...around, whenDown: "open", hasShippedTimeout: true });
    const send = sender(port);
    for (const called of [1, 2]) {
      expect((await send(request("/v2/x"))).status).toBe(200);
      expect(calls).toHaveLength(called);
    }
    expect(backend.received).toHaveLength(2);
  });

  runs(`the gateway stopped: open lets pass, and a refusal still refuses before that ${needs}`, async () => {
    const { send, backend, gateway } = await stage(ingress, { whenDown: "open" });
    expect((await send("GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n")).status).toBe(401);
    await gateway.close();
    const fields = "Content-Length: 5\r\n";
    const answer = await send(request("/v2/x", { method: "POST", fields, body: "hello" }));
    expect([answer.status, answer.body]).toEqual([200, "got hello"]);
    expect(backend.received).toHaveLength(1);
  });
});

test.skipIf(ingresses.some(isMissing))(
  `one quota over ${ingresses.map(({ name }) => name).join(", ")} and the proxy itself (needs all of them)`,
  async () => {
    const { gateway, backend } = await behindGateway({});
    const around = {
      extAuthPort: gateway.extAuth?.port ?? 0,
      backendPort: Number(new URL(backend.url).port),
      whenDown: "closed",
    } as const;
    const running = await Promise.all(ingresses.map((ingress) => ingress.start(cleanup, around)));
    const senders = [gateway.traffic.port, ...running.map(({ port }) => port)].map(sender);
    for (let round = 0; round < 25; round += 1) {
      for (const [i, send] of senders.entries()) {
        const { status, rawHeaders } = await send(request("/v2/x"));
        expect([status, valuesOf(rawHeaders, "RateLimit-Remaining")]).toEqual([200, [`${99 - 4 * round - i}`]]);
      }
    }
    const answers = await Promise.all(senders.map((send) => send(request("/v1/x"))));
    expect(answers.map(({ status, body }) => [status, body])).toEqual(senders.map(() => [429, throttledBody]));
    const resets = answers.map(({ rawHeaders }) => Number(valuesOf(rawHeaders, "RateLimit-Reset")[0]));
    expect(Math.max(...resets) - Math.min(...resets)).toBeLessThanOrEqual(1);
  },
);
