// The length of a request's body is not lost between two versions of HTTP: a table of messages, each on every way.
import { beforeAll, describe, expect, test } from "vitest";
import { startTestApp } from "../../fastify/app.ts";
import { Authority } from "../../support/certificates.ts";
import { useCleanup, useSharedCleanup } from "../../support/cleanup.ts";
import { startTestGateway } from "../../support/gateway.ts";
import {
  endHeaders,
  endStream,
  type Fields,
  FrameClient,
  frame,
  frameTypes,
  literals,
} from "../../support/http2-frames.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { framingOf, type Message, rows, type Way } from "./messages.ts";
import { startWireUpstream, type WireUpstream } from "./wire.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const limit = 10_000;

let upstream: WireUpstream;
let ca = "";
const ports = new Map<Way, number>();
beforeAll(async () => {
  upstream = await startWireUpstream(sharedCleanup);
  const authority = new Authority(sharedCleanup);
  ca = authority.cert;
  const { certFile: cert, keyFile: key, ...issued } = authority.issue();
  const policies = [slidingPolicy({ limit, windowMs: 60_000 })];
  const plain = await startTestGateway({ upstreamUrl: upstream.url, overrides: { policies } });
  sharedCleanup(() => plain.close());
  const listen = { tls: { cert, key, clientCa: null, http2: true } };
  const secure = await startTestGateway({ upstreamUrl: upstream.url, overrides: { policies, listen } });
  sharedCleanup(() => secure.close());
  const options = {
    routes: ["/v2/"],
    policies: [{ name: "per-ip", limit, window: "60s" }],
    upstream: { url: upstream.url },
  };
  const plugin = await startTestApp(sharedCleanup, { options });
  const server = { http2: true, https: { key: issued.key, cert: issued.cert } } as object;
  const plugin2 = await startTestApp(sharedCleanup, { options, server });
  ports.set("HTTP/1.1", plain.traffic.port).set("HTTP/1.0", plain.traffic.port).set("plugin", plugin.port);
  ports.set("HTTP/1.1 over TLS", secure.traffic.port).set("HTTP/2", secure.traffic.port);
  ports.set("plugin over HTTP/2", plugin2.port);
});

const ways: readonly Way[] = [
  ...(["HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/1.0", "HTTP/2", "plugin", "plugin over HTTP/2"] as const),
];

describe.each(ways)("%s", (way) => {
  const carried = rows.map((row) => ({ ...row, gets: framingOf(row, way) })).filter(({ gets }) => gets !== null);

  test.each(carried)("$method that says $says of the body $body arrives with $gets", async (row) => {
    const before = upstream.arrived.length;
    const { method, body, says, gets } = row;
    const send = way.endsWith("HTTP/2") ? sendHttp2 : sendHttp1;
    expect(await send({ method, body, says }, way)).toBe(200);
    expect(upstream.arrived.slice(before)).toEqual([{ framing: gets, body: body ?? "" }]);
  });
});

async function sendHttp1({ method, body, says }: Message, way: Way): Promise<number> {
  const tls = way === "HTTP/1.1 over TLS" ? { tls: { ca } } : {};
  const client = cleanup(new RawConnection(ports.get(way) ?? 0, tls));
  const text = body ?? "";
  const chunk = text === "" ? "" : `${text.length.toString(16)}\r\n${text}\r\n`;
  const framed = {
    nothing: "\r\n",
    length: `Content-Length: ${text.length}\r\n\r\n${text}`,
    chunks: `Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`,
  }[says];
  const version = way === "HTTP/1.0" ? way : "HTTP/1.1";
  client.write(`${method} /v2/x ${version}\r\nHost: api.test\r\nAuthorization: Bearer t\r\n${framed}`);
  return (await client.read({ method })).status;
}

async function sendHttp2({ method, body, says }: Message, way: Way): Promise<number> {
  const client = new FrameClient(ports.get(way) ?? 0, { ca }, cleanup);
  const fields: Fields = [
    [":method", method],
    [":scheme", "https"],
    [":authority", "api.test"],
    [":path", "/v2/x"],
    ["authorization", "Bearer t"],
    ...(says === "length" ? [["content-length", `${body?.length ?? 0}`] as const] : []),
  ];
  const isOver = body === null;
  const head = frame(frameTypes.headers, isOver ? endHeaders | endStream : endHeaders, 1, literals(fields));
  client.socket.write(isOver ? head : Buffer.concat([head, frame(frameTypes.data, endStream, 1, body)]));
  expect(await client.ended(1)).toBe("whole");
  return Number(client.headOf(1)[1]);
}
