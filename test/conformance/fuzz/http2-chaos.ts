// HTTP/2 clients that act at random: they send frames in any order, read or do not read, and end in every way. None of
// them may end the process, or leave anything behind.
import { connect, type Socket } from "node:net";
import type { Policy } from "../../../src/core/policy.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import type { TestGateway } from "../../support/gateway.ts";
import { code, endHeaders, endStream, FrameClient, frameTypes, get, post } from "../../support/http2-frames.ts";
import { metric, upstreamConnections } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { seededRandom } from "../../support/random.ts";
import { stageRaw } from "../../support/stage.ts";
import type { TlsListener } from "../../support/tls-listener.ts";

const stepsOfClient = 40;
const clientsAtOnce = 20;
const piece = Buffer.alloc(64 * 1024, "x");

/**
 * Answers depending on the path: at once, without end, never, before the end of an upload, or with a broken response.
 */
function upstream(socket: Socket, data: Buffer): void {
  const text = data.toString("latin1");
  if (text.includes("/v2/endless")) {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
    const pump = (): void => {
      while (!socket.destroyed && socket.write(piece));
      socket.once("drain", pump);
    };
    pump();
  } else if (text.includes("/v2/broken")) socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  else if (text.includes("/v2/x")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

export interface Chaos {
  /** Runs `count` clients, some at a time. */
  run(seed: number, count: number): Promise<void>;
  /** Resolves when nothing of the clients is left; rejects if something remains. */
  isOver(): Promise<void>;
  readonly gateway: TestGateway;
}

export async function startChaos(cleanup: Cleanup, { ca, overrides }: TlsListener): Promise<Chaos> {
  const perIp = slidingPolicy({ limit: 1_000_000, windowMs: 60_000 });
  const slots: Policy = { ...perIp, name: "slots", rate: { kind: "concurrency" }, limit: 10_000 };
  const policies = [perIp, slots];
  const timeouts = { headMs: 1_000, bodyMs: 1_000, keepAliveMs: 1_000 };
  const { gateway } = await stageRaw(cleanup, upstream, {
    ...overrides,
    policies,
    timeouts,
    upstream: { responseTimeoutMs: 1_000, bodyTimeoutMs: 1_000 },
  });
  const client = async (seed: number): Promise<void> => {
    const random = seededRandom(seed);
    const tcp = connect(gateway.traffic.port, "127.0.0.1");
    const one = new FrameClient(gateway.traffic.port, { ca, socket: tcp }, cleanup, {
      acknowledges: random() < 0.8,
    });
    for (let step = 0; step < stepsOfClient && !one.isClosed; step += 1) {
      if (random() < 0.5) one.socket.cork();
      act(one, random);
      if (random() < 0.5) one.socket.uncork();
      if (random() < 0.2) await new Promise((resolve) => setTimeout(resolve, Math.floor(random() * 20)));
    }
    one.socket.uncork();
    pick(random, leaving)(one.socket, tcp);
    await new Promise((resolve) => setTimeout(resolve, Math.floor(random() * 20)));
    if (random() < 0.7) tcp.destroy();
    else if (random() < 0.5) one.socket.resume();
  };
  return {
    gateway,
    async run(seed, count) {
      for (let from = 0; from < count; from += clientsAtOnce) {
        const seeds = Array.from({ length: Math.min(clientsAtOnce, count - from) }, (_, i) => seed + from + i);
        await Promise.all(seeds.map(client));
      }
    },
    async isOver() {
      const connections = async () => metric(gateway, "headgate_client_connections");
      const upstreams = async () => (await upstreamConnections(gateway)).active;
      const taken = async () => metric(gateway, 'headgate_clients_tracked{policy="slots"}');
      const left = async () => (await connections()) + (await upstreams()) + (await taken());
      await eventually("nothing is left", async () => (await left()) === 0, 15_000);
    },
  };
}

const leaving: readonly ((socket: Socket, tcp: Socket) => void)[] = [
  (socket) => void socket.end(),
  (_, tcp) => void tcp.end(),
  (_, tcp) => void tcp.resetAndDestroy(),
  (socket) => void socket.destroy(),
  (socket, tcp) => {
    socket.pause();
    tcp.pause();
    socket.end();
  },
];

type Random = () => number;

function act(client: FrameClient, random: Random): void {
  const stream = 1 + 2 * Math.floor(random() * 30);
  const bytes = Buffer.alloc(Math.floor(random() ** 4 * 16_384), "y");
  pick(random, actions)(client, stream, bytes, random);
}

type Action = (client: FrameClient, stream: number, bytes: Buffer, random: Random) => void;

const { data, headers, priority, rstStream, settings, ping, goaway, windowUpdate, continuation } = frameTypes;
const paths = ["/v2/x", "/none", "/v2/endless", "/v2/never", "/v2/broken", "/v2/%2e%2e/x"];

const actions: readonly Action[] = [
  (client, stream, _, random) => client.headers(stream, get(pick(random, paths))),
  (client, stream, _, random) => client.headers(stream, get(pick(random, paths))),
  (client, stream, _, random) => client.headers(stream, post([":path", pick(random, paths)]), endHeaders),
  (client, stream, bytes) => client.headers(stream, post(["content-length", `${bytes.length}`]), endHeaders),
  // Many at once, which are answered or reset in the same turn.
  (client, stream) => {
    for (let id = stream; id < stream + 180; id += 2) client.headers(id, post([":path", "/none"]), endHeaders);
  },
  (client, stream) => client.headers(stream, get().slice(1)),
  (client, stream, bytes, random) => client.send(data, random() < 0.3 ? endStream : 0, stream, bytes),
  (client, stream, bytes, random) => client.send(data, random() < 0.3 ? endStream : 0, stream, bytes),
  (client, stream) => {
    for (let i = 0; i < 100; i += 1) client.send(data, 0, stream, "z");
  },
  (client, stream) => client.send(rstStream, 0, stream, code(8)),
  (client) => client.send(ping, 0, 0, Buffer.alloc(8)),
  (client, _, __, random) => client.send(settings, 0, 0, setting(4, random() < 0.5 ? 0 : 65_535)),
  (client, _, __, random) => client.send(settings, 0, 0, setting(1, random() < 0.5 ? 0 : 4_096)),
  (client, stream, _, random) => client.send(windowUpdate, 0, random() < 0.5 ? 0 : stream, code(1 + random() * 1e6)),
  (client, stream) => client.send(priority, 0, stream, Buffer.of(0, 0, 0, 0, 1)),
  (client, stream, bytes) => client.send(11, 0, stream, bytes),
  (client) => client.socket.pause(),
  (client) => client.socket.resume(),
  // Each of the following can be an error of the connection, so they are rare.
  rarely((client, stream, bytes) => client.send(headers, 0, stream, bytes.subarray(0, 100))),
  rarely((client, stream, bytes) => client.send(continuation, endHeaders, stream, bytes.subarray(0, 100))),
  rarely((client) => client.send(goaway, 0, 0, Buffer.alloc(8))),
  rarely((client, stream) => client.send(windowUpdate, 0, stream, code(0))),
  rarely((client, _, bytes) => void client.socket.write(bytes.subarray(0, 50))),
  rarely((client) => client.send(settings, 0, 0, "12345")),
];

function rarely(action: Action): Action {
  return (client, stream, bytes, random) => {
    if (random() < 0.2) action(client, stream, bytes, random);
  };
}

function setting(id: number, value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUInt16BE(id);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[Math.floor(random() * values.length)] as Value;
}
