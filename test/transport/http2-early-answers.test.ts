// Over HTTP/2, an answer to a client that still sends: it is read whole before the client is told to stop, and the connection goes
// on with other requests.
import { expect, test } from "vitest";
import { type Cleanup, cleanupOf, useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { endHeaders, endStream, type Fields, FrameClient, frameTypes, get, post } from "../support/http2-frames.ts";
import { slidingPolicy } from "../support/policy.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const windowBytes = 65_535;

const withPath = (path: string): Fields => post().map(([name, value]) => [name, name === ":path" ? path : value]);
const withoutToken = post().filter(([name]) => name !== "authorization");
const policies = (limit: number) => [slidingPolicy({ limit, windowMs: 60_000 })];

type Case = readonly [claim: string, status: string, fields: Fields, overrides: Overrides];
const cases: readonly Case[] = [
  ["429", "429", post(), { policies: policies(0) }],
  ["401", "401", withoutToken, {}],
  ["404", "404", withPath("/none"), {}],
  ["413", "413", post(["content-length", "1000000"]), { maxBodyBytes: 1_024 }],
  ["413 to a body that grows", "413", post(), { maxBodyBytes: 1_024 }],
  ["401 of the upstream", "401", withPath("/v2/early"), {}],
];

/** The upstream refuses an upload to /v2/early as soon as it has its head. */
const stage = (cleanup: Cleanup, overrides: Overrides, ca = withTls(overrides)) =>
  stageRaw(
    cleanup,
    (socket, data) => {
      const text = data.toString("latin1");
      if (text.includes(" /v2/early ")) socket.end(response("no", "Connection: close\r\n", "401 Unauthorized"));
      else if (text.includes("\r\n\r\n")) socket.write(response("ok"));
    },
    ca.overrides,
  ).then(({ gateway }) => ({ gateway, ca: ca.ca }));

// At the same time, because each waits for the reset.
test.concurrent.for(cases)(
  "a %s is not read together with its reset",
  async ([, status, fields, overrides], context) => {
    const cleanup = cleanupOf(context);
    const { gateway, ca } = await stage(cleanup, overrides);
    const client = new FrameClient(gateway.traffic.port, { ca }, cleanup);
    // Of each record of TLS: how many frames had come with it.
    const records: number[] = [];
    client.socket.on("data", () => void records.push(client.frames.length));
    client.headers(1, fields, endHeaders);
    let sentBytes = 0;
    const fillWindow = (): void => {
      const opened = client.of(frameTypes.windowUpdate, 1).map(({ payload }) => payload.readUInt32BE(0));
      const allowedBytes = opened.reduce((sum, bytes) => sum + bytes, windowBytes);
      for (let left = allowedBytes - sentBytes; left > 0; left -= 16_384) {
        client.send(frameTypes.data, 0, 1, Buffer.alloc(Math.min(left, 16_384)));
      }
      sentBytes = allowedBytes;
    };
    fillWindow();
    expect(await client.ended(1)).toBe("whole");
    fillWindow();
    expect(client.headOf(1).slice(0, 2)).toEqual([":status", status]);
    await eventually("it is told to stop", () => client.of(frameTypes.rstStream, 1).length === 1);
    const recordOf = (isWanted: (frame: (typeof client.frames)[number]) => boolean): number => {
      const at = client.frames.findIndex(isWanted);
      return records.findIndex((frames) => frames > at);
    };
    const reset = recordOf(({ type, stream }) => type === frameTypes.rstStream && stream === 1);
    const end = recordOf(({ type, stream, flags }) => type <= 1 && stream === 1 && (flags & endStream) !== 0);
    expect(reset).toBeGreaterThan(end);
    expect(client.of(frameTypes.rstStream, 1)[0]?.payload.readUInt32BE(0)).toBe(0);
    // What nobody has taken of the body is given back to the connection, and nothing to the stream once it is answered.
    client.headers(3, get("/none"));
    expect(await client.ended(3)).toBe("whole");
    expect(client.goaways).toEqual([]);
  },
);

test.concurrent.for(cases)("Node's client has the whole %s, and its request is closed", async (row, context) => {
  const [, status, fields, overrides] = row;
  const cleanup = cleanupOf(context);
  const { gateway, ca } = await stage(cleanup, overrides);
  const { session } = new Http2Client(gateway.traffic.port, ca, cleanup);
  const stream = session.request(Object.fromEntries(fields), { endStream: false });
  let body = "";
  stream.on("data", (piece: Buffer) => {
    body += piece.toString("latin1");
  });
  const answered = new Promise((resolve) => stream.once("response", (head) => resolve(head[":status"])));
  const closed = new Promise((resolve) => stream.once("close", () => resolve(stream.rstCode)));
  stream.on("error", () => {});
  stream.write(Buffer.alloc(400_000));
  expect(await within("the answer", answered)).toBe(Number(status));
  expect(await within("the end", closed)).toBe(0);
  expect(body).toMatch(/\]\}$|^no$/);
});

test("a client that ends its request early because of the answer's head gets the rest, and no short body passes for a whole one", async () => {
  const { ca, overrides } = withTls();
  let goOn = (): void => {};
  const { gateway, upstream } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (!data.includes("POST ")) return;
      socket.write("HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nno");
      goOn = () => void socket.write("ok");
    },
    overrides,
  );
  const client = new FrameClient(gateway.traffic.port, { ca }, cleanup);
  client.headers(1, post(["content-length", "1000"]), endHeaders);
  client.send(frameTypes.data, 0, 1, "first");
  await eventually("the answer has begun", () => client.of(frameTypes.data, 1).length > 0);
  client.send(frameTypes.data, endStream, 1);
  client.headers(3, get("/none"));
  expect(await client.ended(3)).toBe("whole");
  expect(client.endOf(1)).toBe(null);
  goOn();
  expect(await client.ended(1)).toBe("whole");
  const body = Buffer.concat(client.of(frameTypes.data, 1).map(({ payload }) => payload));
  expect([body.toString(), client.goaways, client.of(frameTypes.rstStream)]).toEqual(["nook", [], []]);
  await eventually("the upstream's connection is closed, not used again", () => upstream.sockets.size === 0);
  expect(upstream.bytes().endsWith("first")).toBe(true);
});

test("one that ends it early before any answer is reset, as before", async () => {
  const { gateway, ca } = await stage(cleanup, {});
  const client = new FrameClient(gateway.traffic.port, { ca }, cleanup);
  client.headers(1, post(["content-length", "1000"]), endHeaders);
  client.send(frameTypes.data, endStream, 1, "first");
  expect(await client.ended(1)).toBe(1);
});
