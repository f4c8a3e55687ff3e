// Exchanges that end in every way while a policy bounds how many are under way at once, and an upstream that knows how
// many are.
import { writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../../support/gateway-process.ts";
import { startLoopbackServer } from "../../support/loopback-server.ts";
import { seededRandom } from "../../support/random.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { request, response } from "../../support/stage.ts";
import { leave, stages } from "../faults/aborts.ts";

export const slots = 96;
/** More than slots, so that some are refused. */
const atOnce = 128;
const responseTimeoutMs = 100;

/** One client gets half of the connections to the upstream, and of the tunnels. */
const config = `policies:
  - { name: per-ip, limit: 1000000, window: 60s }
  - { name: slots, concurrency: ${slots}, key: [] }
upstream: { responseTimeout: ${responseTimeoutMs}ms, bodyTimeout: ${responseTimeoutMs}ms, maxConnections: 128 }
upgrade: { maxTunnels: 240 }
log: { access: false }
`;

const offer = { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" };
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

/** How an exchange ends, besides those whose client leaves: its request, which the upstream answers by its path. */
const endings = {
  answered: request("/v2/ok"),
  "refused by the upstream": request("/v2/denied"),
  "failed by the upstream": request("/v2/failing"),
  "reset by the upstream": request("/v2/reset"),
  "answered by what is not HTTP": request("/v2/garbage"),
  "answered by half": request("/v2/half"),
  "not answered in time": request("/v2/late"),
  "refused for its path": request("/v1/..%2fv2/ok"),
  "refused for its token": request("/v2/ok").replace("Authorization", "X-None"),
  "refused for its size": request("/v2/ok", { method: "POST", fields: "Content-Length: 99999999\r\n" }),
  "an upgrade that the upstream refuses": request("/v2/ok", offer),
  "an upgrade that the upstream ends": request("/v2/brief", offer),
};

interface SlotsUpstream {
  readonly url: string;
  /** The most requests that were under way for some time at once. */
  readonly most: () => number;
}

/** Long enough that the end of another connection, which was sent before, has arrived. */
const settledMs = 30;

async function startSlotsUpstream(cleanup: Cleanup): Promise<SlotsUpstream> {
  /** The requests under way, each with its beginning. */
  const underWay = new Map<Socket, number>();
  let most = 0;
  const done = (socket: Socket, bytes: string): void => {
    underWay.delete(socket);
    socket.write(bytes);
  };
  const answers: Record<string, (socket: Socket) => void> = {
    ok: (socket) => done(socket, response("ok")),
    denied: (socket) => done(socket, response("no", "", "401 Unauthorized")),
    failing: (socket) => done(socket, response("no", "", "500 Internal Server Error")),
    reset: (socket) => void socket.resetAndDestroy(),
    garbage: (socket) => done(socket, "no HTTP\r\n\r\n"),
    half: (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"),
    begun: (socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"),
    poured: (socket) => done(socket, response("x".repeat(400_000))),
    switched: (socket) => void socket.write(`${switched}welcome`),
    brief: (socket) => void socket.end(`${switched}welcome`),
  };
  const { url } = await startLoopbackServer(cleanup, (socket) => {
    socket.on("close", () => underWay.delete(socket));
    socket.on("data", (data) => {
      const path = /^\S+ \/v2\/(\w+)\S* HTTP/.exec(data.toString("latin1"))?.[1];
      if (path === undefined) return;
      const nowMs = performance.now();
      underWay.set(socket, nowMs);
      answers[path]?.(socket);
      const settled = [...underWay.values()].filter((sinceMs) => nowMs - sinceMs > settledMs).length;
      most = Math.max(most, settled);
    });
  });
  return { url, most: () => most };
}

export interface Slots {
  readonly gateway: GatewayProcess;
  readonly upstream: SlotsUpstream;
  /** Runs so many exchanges. Resolves with the number of answers by status. */
  run(exchanges: number): Promise<ReadonlyMap<number, number>>;
  /** Resolves when no slot is taken. */
  areFree(): Promise<void>;
  /** Takes all slots, and resolves with the status of one more request. */
  takeAll(): Promise<number>;
}

export async function startSlots(cleanup: Cleanup): Promise<Slots> {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, config);
  const upstream = await startSlotsUpstream(cleanup);
  const gateway = await startGatewayProcess(cleanup, upstream.url, [], { config: file });
  const random = seededRandom(12);
  const statuses = new Map<number, number>();
  const all = [...Object.values(stages), ...Object.values(endings).flatMap((bytes) => [() => bytes])];
  const one = async (id: number): Promise<void> => {
    const stage = all[Math.floor(random() * all.length)] ?? (() => "");
    const bytes = stage(id, random);
    if (Object.values(endings).includes(bytes)) {
      const status = await ask(gateway.port, bytes);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    } else {
      await leave(gateway.port, { bytes, onHeld: () => {}, onLeave: () => {} }, random);
    }
  };
  return {
    gateway,
    upstream,
    async run(exchanges) {
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < exchanges) await one(next++);
      };
      await Promise.all(Array.from({ length: atOnce }, work));
      return statuses;
    },
    async areFree() {
      const taken = async (): Promise<number> =>
        (await gateway.figures()).get('headgate_clients_tracked{policy="slots"}') ?? Number.NaN;
      await eventually("no slot is taken", async () => (await taken()) === 0, 15_000);
    },
    async takeAll() {
      for (let taken = 0; taken < slots; ) {
        const client = cleanup(new RawConnection(gateway.port)).write(request("/v2/switched", offer));
        const { status } = await client.readHead();
        if (status === 101) taken += 1;
        // On a machine that stalls, the upstream exceeds the short response timeout. The slot is free again then.
        else if (status !== 504) throw new Error(`after ${taken} slots were taken, the answer is ${status}`);
      }
      return ask(gateway.port, request("/v2/ok"));
    },
  };
}

/** Resolves with the status of the response, and leaves; 0 if it was not complete. */
async function ask(port: number, bytes: string): Promise<number> {
  const client = new RawConnection(port);
  client.write(bytes);
  try {
    return (await client.read()).status;
  } catch {
    return 0;
  } finally {
    client.destroy();
  }
}
