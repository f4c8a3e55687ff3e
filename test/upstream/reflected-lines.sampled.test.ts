// A script of CGI that writes a part of its request into its head and its body: whatever line ends, empty lines and responses
// stand there, each request gets exactly one answer, and no later request gets what is left of it. What a reader of the
// script's own output would take for one more field is one more field here as well.
import type { Socket } from "node:net";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { runs } from "../support/runs.ts";
import { request, response, type Stage, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import type { RawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const withTls = useTls();

/** Connections that have carried a head with a single LF, and those of them that carried another request. */
const spoiled = new WeakSet<Socket>();
let reused = 0;
let ca = "";
let stage: Stage<RawUpstream>;
beforeAll(async () => {
  const tls = withTls({ policies: [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })] });
  ({ ca } = tls);
  stage = await stageRaw(sharedCleanup, answer, tls.overrides);
});

function answer(socket: Socket, data: Buffer): void {
  if (spoiled.has(socket)) reused += 1;
  const [, path = "", query = ""] = /^GET \/v2\/(\w+)\??(\S*) /.exec(data.toString("latin1")) ?? [];
  if (path === "own") {
    socket.write(response(query));
    return;
  }
  const text = Buffer.from(query, "base64url").toString("latin1");
  const body = `${text} body`;
  const length = path === "stays" ? `Content-Length: ${body.length}\n` : "";
  spoiled.add(socket);
  socket.write(
    `HTTP/1.1 200 OK\r\n${length}X-Before: 1\nX-Reflected: ${text}\nContent-Type: text/plain\n\n${body}`,
    "latin1",
  );
  if (path === "ends") socket.end();
}

const pieces = [
  ...["\r", "\n", "\r\n", "\n\n", "\r\n\n", "\n\r\n", "\r\n\r\n", "\n\r", " ", "\t", ":", "a", "\0"],
  ...["HTTP/1.1 200 OK", "HTTP/1.1 103 Early Hints", "HTTP/1.1 101 Switching Protocols", "HTTP/1.1 304 Not Modified"],
  ...[
    "Content-Length: 0",
    "Content-Length: 5",
    "Transfer-Encoding: chunked",
    "0\r\n\r\n",
    "5\nhello\n",
    "Connection: close",
  ],
  ...[
    "X-Stolen: 1",
    "Set-Cookie: stolen=1",
    "GET /v2/own?stolen HTTP/1.1",
    "HTTP/1.1 200 OK\nContent-Length: 6\n\nstolen",
  ],
] as const;
const reflected = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 12 }).map((all) => all.join(""));

const connect = (): RawConnection => {
  return cleanup(new RawConnection(stage.gateway.traffic.port, { tls: { ca } }));
};
const target = (path: string, text: string): string =>
  `/v2/${path}?${Buffer.from(text, "latin1").toString("base64url")}`;

/** Nothing but the one broken answer came before the end. */
async function reconnected(client: RawConnection): Promise<RawConnection> {
  await within("the connection ends", client.closed);
  expect(client.rest).not.toMatch(/\r\nX-Request-Id: .*\r\nX-Request-Id: /is);
  return connect();
}

/** One answer, framed in one way, with the gateway's fields once. */
function expectOne({ status, rawHeaders }: { status: number; rawHeaders: readonly string[] }): void {
  expect([200, 502]).toContain(status);
  expect(valuesOf(rawHeaders, "X-Request-Id")).toHaveLength(1);
  const framing = [...valuesOf(rawHeaders, "Content-Length"), ...valuesOf(rawHeaders, "Transfer-Encoding")];
  expect(framing.length).toBeLessThanOrEqual(1);
}

test("over HTTP/1.1 each request has one answer, and what is left over is nobody's", async () => {
  let client = connect();
  let other = connect();
  const seen: Record<string, number> = {};
  let number = 0;
  await fc.assert(
    fc.asyncProperty(reflected, fc.constantFrom("ends", "stays"), async (text, path) => {
      number += 1;
      // A connection carries a thousand requests.
      if (number % 400 === 0) [client, other] = [connect(), connect()];
      client.write(request(target(path, text)));
      // A body that is malformed breaks the connection.
      const got = await client.read().catch(() => null);
      if (got === null) client = await reconnected(client);
      else expectOne(got);
      seen[got?.status ?? "broken"] = (seen[got?.status ?? "broken"] ?? 0) + 1;
      expect(client.rest).toBe("");
      for (const [i, each] of [client, other].entries()) {
        each.write(request(`/v2/own?${number}-${i}`));
        expect(await each.read()).toMatchObject({ status: 200, body: `${number}-${i}` });
        expect(each.rest).toBe("");
      }
    }),
    runs(2_000),
  );
  expect(reused).toBe(0);
  expect(Math.min(seen["200"] ?? 0, seen["502"] ?? 0)).toBeGreaterThan(number / 10);
});

test("over HTTP/2 as well", async () => {
  let client = new Http2Client(stage.gateway.traffic.port, ca, cleanup);
  let number = 0;
  await fc.assert(
    fc.asyncProperty(reflected, fc.constantFrom("ends", "stays"), async (text, path) => {
      number += 1;
      if (number % 400 === 0) client = new Http2Client(stage.gateway.traffic.port, ca, cleanup);
      const got = await client.ask({ path: target(path, text) }).catch(() => null);
      if (got !== null) expectOne(got);
      const own = await client.ask({ path: `/v2/own?${number}` });
      expect(own).toMatchObject({ status: 200, body: `${number}` });
    }),
    runs(1_000),
  );
  expect(reused).toBe(0);
});

test.each([
  ["a length", "Content-Length: 2\n\nok"],
  ["chunks", "Transfer-Encoding: chunked\n\n2\r\nok\r\n0\r\n\r\n"],
  ["a length, and LF for the empty line alone", "Content-Length: 2\r\n\nok"],
  ["a length, and LF before the empty line alone", "Content-Length: 2\n\r\nok"],
])("no other request is sent on the connection after a head with LF and %s", async (_, rest) => {
  const requests = new Map<Socket, number>();
  const { connect: plain } = await stageRaw(cleanup, (socket) => {
    requests.set(socket, (requests.get(socket) ?? 0) + 1);
    socket.write(`HTTP/1.1 200 OK\r\n${rest}`);
  });
  const client = plain();
  for (let i = 0; i < 3; i += 1) {
    expect(await client.ask(request("/v2/x"))).toMatchObject({ status: 200, body: "ok" });
  }
  expect([...requests.values()]).toEqual([1, 1, 1]);
});
