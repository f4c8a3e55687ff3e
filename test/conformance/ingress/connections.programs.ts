// The shipped configurations of nginx, Caddy and HAProxy as they stand: what becomes of a WebSocket, of a large body, and of
// the connections that refusals come over.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect, createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { useCleanup } from "../../support/cleanup.ts";
import { expectContractFields, sentByNow } from "../../support/contract-fields.ts";
import { within } from "../../support/eventually.ts";
import { type Overrides, startTestGateway } from "../../support/gateway.ts";
import { listen } from "../../support/loopback-server.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { request, response } from "../../support/stage.ts";
import { startRawUpstream, startUpstream } from "../../support/upstream.ts";
import { startWebSocketUpstream } from "../../support/web-sockets.ts";
import { type Ingress, ingresses, type RunningIngress } from "./ingresses.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const isMissing = ({ isInstalled }: Ingress): boolean => !isInstalled && HEADGATE_REQUIRE !== "all";
const defaultMaxBodyBytes = 10 * 1024 * 1024;

interface Stage extends RunningIngress {
  /** Connections that the gateway was asked over. */
  readonly connections: () => number;
  connect(): RawConnection;
}

interface Choices {
  readonly backendPort: number;
  readonly denyStatus?: 429 | 403;
  readonly limit?: number;
}

async function stage(ingress: Ingress, { backendPort, denyStatus = 429, limit = 100 }: Choices): Promise<Stage> {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const overrides: Overrides = {
    extAuth: { http, trustedCallers: ["127.0.0.1"], denyStatus },
    policies: [slidingPolicy({ limit, windowMs: 60_000 })],
    drain: { timeoutMs: 0 },
  };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: `http://127.0.0.1:${backendPort}`, overrides }));
  const relay = await startRelay(gateway.extAuth?.port ?? 0);
  const running = await ingress.start(cleanup, { extAuthPort: relay.port, backendPort, whenDown: "closed" });
  const open = (): RawConnection => {
    return cleanup(new RawConnection(running.port));
  };
  return { ...running, connections: relay.connections, connect: open };
}

/** Passes bytes on to a port and counts the connections. */
async function startRelay(to: number): Promise<{ port: number; connections: () => number }> {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    const other = connect(to, "127.0.0.1");
    for (const [from, into] of [[socket, other] as const, [other, socket] as const]) {
      from.on("error", () => {});
      from.on("close", () => into.destroy());
      from.pipe(into);
    }
  });
  const port = await listen(cleanup(server));
  return { port, connections: () => connections };
}

describe.each(ingresses)("$name", (ingress) => {
  const { name, debianPackage, spelling } = ingress;
  const runs = test.skipIf(isMissing(ingress));
  const needs = `(needs ${name}: apt-get install ${debianPackage})`;

  runs(`a WebSocket is opened by a 101 with all fields, and the one over the limit refused ${needs}`, async () => {
    const echo = (socket: WebSocket): void => void socket.on("message", (data) => socket.send(`echo of ${data}`));
    const backend = await startWebSocketUpstream(cleanup, echo);
    const { port } = await stage(ingress, { backendPort: backend.port, limit: 1 });
    const open = (): WebSocket => {
      const headers = { Authorization: "Bearer secret-token" };
      const client = new WebSocket(`ws://127.0.0.1:${port}/v2/live?a=1`, { headers });
      cleanup(() => client.terminate());
      client.on("error", () => {});
      return client;
    };
    const client = open();
    const echoed = once(client, "message");
    client.on("open", () => client.send("hello"));
    const [upgrade] = (await within("a 101", once(client, "upgrade"))) as [IncomingMessage];
    expectContractFields({ rawHeaders: upgrade.rawHeaders }, { limit: 1, remaining: 0 }, spelling, sentByNow());
    expect(String((await within("the echo", echoed))[0])).toBe("echo of hello");
    const [, refused] = (await within("a refusal", once(open(), "unexpected-response"))) as [unknown, IncomingMessage];
    expect(refused.statusCode).toBe(429);
    refused.destroy();
    expect(backend.requests.map(({ url }) => url)).toEqual(["/v2/live?a=1"]);
  });

  runs(`no other protocol is offered to the backend: what it carries would not be counted ${needs}`, async () => {
    const other = /^upgrade:.*(?:h2c|tls)/im;
    const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    const backend = await startRawUpstream(
      (socket, data) => void socket.write(other.test(String(data)) ? switching : response("ok")),
    );
    cleanup(() => backend.close());
    const { connect } = await stage(ingress, { backendPort: backend.port });
    const key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (const offer of [
      "h2c",
      "websocket, h2c",
      "h2c\r\nUpgrade: websocket",
      "WebSocket\r\nUpgrade: h2c",
      "tls/1.0",
    ]) {
      const client = connect();
      const fields = `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${offer}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n`;
      expect([offer, (await client.ask(request("/v2/x", { fields: fields + key }))).status]).toEqual([offer, 200]);
    }
    expect(backend.bytes()).not.toMatch(other);
  });

  runs(`a body of ${defaultMaxBodyBytes} bytes passes, one byte more is 413 ${needs}`, async () => {
    const backend = cleanup(await startUpstream((_req, res, body) => void res.end(`${body.length} bytes`)));
    const { connect } = await stage(ingress, { backendPort: backend.port });
    const client = connect();
    const body = Buffer.alloc(defaultMaxBodyBytes, "x");
    client.write(request("/v2/x", { method: "POST", fields: `Content-Length: ${body.length}\r\n` }));
    const whole = await client.ask(body);
    expect([whole.status, whole.body]).toEqual([200, `${body.length} bytes`]);
    const larger = connect();
    larger.write(request("/v2/x", { method: "POST", fields: `Content-Length: ${body.length + 1}\r\n` }));
    const refused = await larger.read();
    expect([refused.status, refused.body]).toEqual([
      413,
      '{"message":"Content Too Large","errors":[{"errMsg":"The request body is larger than allowed."}]}',
    ]);
    expect(valuesOf(refused.rawHeaders, "Content-Type")).toEqual(["application/json; charset=utf-8"]);
    // HAProxy has no bound for a body whose length is not announced.
    if (name !== "HAProxy") {
      const growing = connect().write(request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n" }));
      expect((await growing.ask(`${(body.length + 1).toString(16)}\r\n${body}x\r\n0\r\n\r\n`)).status).toBe(413);
    }
    expect(backend.received).toHaveLength(1);
  });

  runs.each([429, 403] as const)(
    `refusals keep the client's connection and leave no error in the log, with denyStatus %i ${needs}`,
    async (denyStatus) => {
      const backend = cleanup(await startUpstream());
      const staged = await stage(ingress, { backendPort: backend.port, denyStatus, limit: 2 });
      const client = staged.connect();
      const ask = async (text: string): Promise<number> => {
        return (await client.ask(text)).status;
      };
      const refusals = [
        ["GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n", 401],
        [request("/v2/a%2f..%2f..%2fv1/x"), 400],
        [request("/elsewhere"), 404],
        [request("/v2/x"), 429],
        [request("/v2/x"), 429],
      ] as const;
      for (const [text, status] of refusals) expect([text, await ask(text)]).toEqual([text, status]);
      expect(client.ending).toBeNull();
      expect(staged.errors()).toEqual([]);
      // HAProxy's Lua asks over a connection of its own each time.
      if (name !== "HAProxy") expect(staged.connections()).toBe(1);
    },
  );
});
