// How HTTP/2 connections end when nobody says goodbye: whatever is under way, nothing of it is left.
import { connect, type Socket } from "node:net";
import { queryObjects } from "node:v8";
import { beforeAll, expect, test } from "vitest";
import { Http2Connection } from "../../src/transport/http2/http2-connection.ts";
import { type Cleanup, useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { endHeaders, FrameClient, frame, frameTypes, get, post } from "../support/http2-frames.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { inFull } from "../support/runs.ts";
import { stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();

/** The upstream sends without end what is asked of /v2/endless, and answers nothing else. */
async function startGateway(closing: Cleanup) {
  const { ca, overrides } = withTls({ policies: [slidingPolicy({ limit: 10_000, windowMs: 60_000 })] });
  const chunk = Buffer.alloc(64 * 1024, "x");
  const onData = (socket: Socket, data: Buffer): void => {
    if (!data.includes("/v2/endless")) return;
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
    const pump = (): void => {
      while (!socket.destroyed && socket.write(chunk));
      socket.once("drain", pump);
    };
    pump();
  };
  return { ca, gateway: (await stageRaw(closing, onData, overrides)).gateway };
}

function connectTo({ ca, gateway }: Awaited<ReturnType<typeof startGateway>>) {
  const tcp = connect(gateway.traffic.port, "127.0.0.1");
  const client = new FrameClient(gateway.traffic.port, { ca, socket: tcp }, cleanup);
  const isOver = async (): Promise<boolean> =>
    (await metric(gateway, "headgate_client_connections")) === 0 && (await upstreamConnections(gateway)).active === 0;
  return { client, tcp, gateway, isOver };
}

const start = async () => connectTo(await startGateway(cleanup));

/** One gateway serves the whole matrix: what an earlier client has left behind is still there. */
const sharedCleanup = useSharedCleanup();
let shared: Awaited<ReturnType<typeof startGateway>>;
beforeAll(async () => {
  shared = await startGateway(sharedCleanup);
});

const under: Readonly<Record<string, (client: FrameClient) => Promise<void>>> = {
  "before its preface is read": async () => {},
  "while answered uploads are reset": async (client) => {
    client.socket.cork();
    for (let id = 1; id < 180; id += 2) client.headers(id, post([":path", "/none"]), endHeaders);
    client.socket.uncork();
  },
  "while requests wait": async (client) => {
    for (const id of [1, 3, 5]) client.headers(id, get());
  },
  "in the middle of a body": async (client) => {
    client.headers(1, post(["content-length", "100000"]), endHeaders);
    client.send(frameTypes.data, 0, 1, Buffer.alloc(10_000));
  },
  "in the middle of a frame": async (client) => {
    client.headers(1, get());
    client.socket.write(Buffer.of(0, 0, 8, 6, 0, 0));
  },
  "in the middle of a head": async (client) => {
    client.send(frameTypes.headers, 1, 1, Buffer.of(0x82, 0x84));
  },
  "while a response is written": async (client) => {
    client.headers(1, get("/v2/endless"));
    await eventually("it begins", () => client.of(frameTypes.data, 1).length > 0);
  },
  "while it reads nothing": async (client) => {
    client.headers(1, get("/v2/endless"));
    await eventually("it begins", () => client.of(frameTypes.data, 1).length > 0);
    client.socket.pause();
  },
};
const ways: Readonly<Record<string, (client: FrameClient, tcp: Socket) => void>> = {
  "ends its side": ({ socket }) => void socket.end(),
  "ends its side without TLS": (_, tcp) => void tcp.end(),
  "resets the connection": (_, tcp) => void tcp.resetAndDestroy(),
};
const matrix = Object.keys(ways).flatMap((way) => Object.keys(under).map((when) => [way, when] as const));

test.each(matrix)("a client that %s %s leaves nothing behind", async (way, when) => {
  const { client, tcp, gateway, isOver } = connectTo(shared);
  await eventually("it is connected", () => client.of(frameTypes.settings).length > 0);
  await under[when]?.(client);
  ways[way]?.(client, tcp);
  await eventually("all is over", isOver, 8_000);
  expect(gateway.logLines.filter(({ level }) => level === "error")).toEqual([]);
});

/** It holds what was read and not passed on, and is held by whatever holds one of its streams. */
const keptInMemory = (): number => Number(queryObjects(Http2Connection));

const endings: readonly ((client: FrameClient) => void)[] = [
  ({ socket }) => void socket.end(),
  (client) => {
    client.headers(1, post(), endHeaders);
    client.socket.destroy();
  },
  // The stream ends by an error of its connection.
  (client) => {
    client.headers(1, get("/v2/endless"));
    client.send(frameTypes.ping, 0, 1, Buffer.alloc(8));
  },
  // The session ends while more arrives.
  (client) => {
    client.headers(1, get(), 1);
    client.socket.write(Buffer.concat(Array(4_000).fill(frame(frameTypes.continuation, 0, 1))));
  },
  // It costs too much.
  (client) =>
    void client.socket.write(Buffer.concat(Array(20_000).fill(frame(frameTypes.ping, 0, 0, Buffer.alloc(8))))),
];

// It looks at the whole heap, several times.
test.each(inFull(["it is not kept in memory"]))("however a connection ends, %s", async () => {
  for (const end of endings) {
    const { client, isOver } = await start();
    await eventually("it is connected", () => client.of(frameTypes.settings).length > 0);
    end(client);
    await eventually("all is over", isOver, 8_000);
  }
  // The timeout that could keep it is longer than a minute.
  await eventually("it is collected", () => keptInMemory() === 0);
});

test("a drain that ends aborts what is written to a client that reads nothing", async () => {
  const { client, gateway } = await start();
  client.headers(1, get("/v2/endless"));
  await eventually("it begins", () => client.of(frameTypes.data, 1).length > 0);
  client.socket.pause();
  await gateway.drain();
  expect(gateway.logLines.find(({ msg }) => /broken off/.test(String(msg)))).toMatchObject({ requests: 1 });
});
