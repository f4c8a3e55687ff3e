// A response that the upstream cuts off, to a client of HTTP/1.0: what has arrived of one whose length is announced is delivered,
// and the connection is ended. Of one whose end would be that of the connection, only a reset says that it is cut.
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { startServing } from "../fastify/serving.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { type StartServing, startTestGateway } from "../support/gateway.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

const sent = "x".repeat(300_000);
const announced = `HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n${sent}`;
const chunked = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${sent.length.toString(16)}\r\n${sent}\r\n`;
const unframed = `HTTP/1.1 200 OK\r\n\r\n${sent}`;
const end = (socket: Socket): void => void socket.end();
const reset = (socket: Socket): void => void socket.resetAndDestroy();

describe.each<[name: string, start: StartServing]>([
  ["the gateway", startTestGateway],
  ["the plugin", startServing],
])("%s", (_, start) => {
  /** A client that begins to read when the upstream's connection is over. */
  async function cut(version: string, bytes: string, breakOff: (socket: Socket) => void): Promise<RawConnection> {
    let taken = false;
    const upstream = cleanup(await startRawUpstream((socket) => void socket.write(bytes, () => (taken = true))));
    const serving = cleanup(await start({ upstreamUrl: upstream.url, overrides: {} }));
    const client = cleanup(new RawConnection(serving.traffic.port));
    client.socket.pause();
    client.write(`GET /v2/x ${version}\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n`);
    await eventually("all of it has been sent", () => taken);
    for (const socket of upstream.sockets) breakOff(socket);
    await eventually("the upstream's connection is over", () => upstream.sockets.size === 0);
    client.socket.resume();
    await within("the connection ends", client.closed);
    return client;
  }

  test.each([
    ["HTTP/1.0", "closed", end],
    ["HTTP/1.1", "closed", end],
  ])("to %s, of a response with a length that is %s all that came is delivered", async (version, _how, breakOff) => {
    const client = await cut(version, announced, breakOff);
    const [, body = ""] = client.rest.split("\r\n\r\n");
    expect([body.length, client.ending]).toEqual([sent.length, "end"]);
  });

  test("to HTTP/1.0, all that came of a response with a length stays when the upstream resets its connection", async () => {
    const upstream = cleanup(await startRawUpstream((socket) => void socket.write(announced)));
    const serving = cleanup(await start({ upstreamUrl: upstream.url, overrides: {} }));
    const client = cleanup(new RawConnection(serving.traffic.port));
    client.write("GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
    const bodyBytes = (): number => client.rest.split("\r\n\r\n")[1]?.length ?? 0;
    await eventually("it has arrived", () => bodyBytes() === sent.length);
    for (const socket of upstream.sockets) reset(socket);
    await within("the connection ends", client.closed);
    expect([bodyBytes(), client.ending]).toEqual([sent.length, "end"]);
  });

  test.each([
    ["in chunks", chunked, end],
    ["in chunks, reset", chunked, reset],
    ["without a length, reset", unframed, reset],
  ])("to HTTP/1.0, a response %s ends with a reset", async (_how, bytes, breakOff) => {
    const client = await cut("HTTP/1.0", bytes, breakOff);
    expect(client.ending).toBe("ECONNRESET");
  });
});
