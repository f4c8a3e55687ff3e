// A gateway before several backends, each on a loopback address of its own.
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../src/core/clock.ts";
import type { NameOptions } from "../../src/upstream/name-lookup.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { freePort } from "../support/free-port.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, response } from "../support/stage.ts";

const policies = [slidingPolicy({ limit: 100_000, windowMs: 60_000 })];

export interface Backend {
  readonly host: string;
  readonly port: number;
  readonly address: string;
  hits: number;
  readonly sockets: Set<Socket>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** Answers with its own address, unless told otherwise. While it is stopped, nobody else listens on its port. */
export async function startBackend(
  cleanup: Cleanup,
  host: string,
  answer?: (socket: Socket, data: Buffer) => void,
  at = 0,
): Promise<Backend> {
  const sockets = new Set<Socket>();
  let server: Server;
  const port = at === 0 ? await freePort() : at;
  const backend = {
    hits: 0,
    host,
    sockets,
    async start() {
      server = createServer((socket) => {
        sockets.add(socket);
        socket.on("close", () => sockets.delete(socket));
        socket.on("error", () => {});
        socket.on("data", (data) => {
          if (/^[A-Z]+ \//.test(data.toString("latin1"))) backend.hits += 1;
          if (answer === undefined) socket.write(response(host));
          else answer(socket, Buffer.from(data));
        });
      });
      server.listen(port, host);
      await once(server, "listening");
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, "close");
    },
  };
  await backend.start();
  cleanup(() => backend.stop());
  return Object.assign(backend, { port, address: `${host}:${port}` });
}

export interface Held extends Backend {
  /** The connections of requests that are not answered yet, the oldest first. */
  readonly held: Socket[];
  /** Answers the oldest. */
  release(): void;
}

/** Answers each request when it is told to. */
export async function startHeld(cleanup: Cleanup, host: string): Promise<Held> {
  const held: Socket[] = [];
  const backend = await startBackend(cleanup, host, (socket) => void held.push(socket));
  return Object.assign(backend, { held, release: () => void held.shift()?.write(response(host)) });
}

export interface Staged {
  readonly gateway: TestGateway;
  connect(localAddress?: string): RawConnection;
  /** The body of what a request is answered with, or its status. */
  ask(method?: string): Promise<string>;
  metric(name: string): Promise<number>;
  /** Lines that begin so. */
  told(begin: string): unknown[];
  events(): unknown[];
}

export interface Place {
  readonly url?: string;
  readonly addresses?: readonly string[];
  readonly upstream?: Overrides["upstream"];
  readonly clock?: Clock;
  readonly names?: NameOptions;
}

export async function stage(
  cleanup: Cleanup,
  { url = "http://backend.test:1", addresses = [], upstream, ...more }: Place,
): Promise<Staged> {
  const overrides = { drain: { timeoutMs: 0 }, policies, upstream: { addresses, ...upstream } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: url, overrides, ...more }));
  const connect = (localAddress = "127.0.0.1"): RawConnection => {
    return cleanup(new RawConnection(gateway.traffic.port, { localAddress }));
  };
  const shared = connect();
  const told = (begin: string) => gateway.logLines.filter(({ msg }) => String(msg).startsWith(begin));
  return {
    gateway,
    connect,
    async ask(method = "GET") {
      const withBody = method === "POST" ? { fields: "Content-Length: 2\r\n", body: "hi" } : {};
      const { status, body } = await shared.ask(request("/v2/x", { method, ...withBody }));
      return status === 200 ? body : String(status);
    },
    async metric(name) {
      const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      return Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`${name} `))
          ?.split(" ")[1],
      );
    },
    told,
    events: () => gateway.logLines.filter(({ msg }) => /^upstream address (?!not reached)/.test(String(msg))),
  };
}
