// Both ends of connections on loopback, accepted by the same process, over TCP and over TLS.
import { connect, createServer, type Server, type Socket } from "node:net";
import { expect } from "vitest";
import type { Net } from "../../src/exchange/prove-sockets.ts";
import { SocketReads } from "../../src/exchange/sockets.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { listen } from "../support/loopback-server.ts";
import { makeSecureNet } from "./secure-net.ts";

export interface Pair {
  readonly client: Socket;
  readonly accepted: Socket;
  readonly reads: SocketReads;
}

export const kinds = ["TCP", "TLS"] as const;
export type Kind = (typeof kinds)[number];

const netOf = (kind: Kind): Net => (kind === "TLS" ? makeSecureNet() : { connect, createServer });

/** In the order of the clients. */
export async function openPairs(cleanup: Cleanup, kind: Kind, count: number): Promise<Pair[]> {
  const net = netOf(kind);
  const accepted: Socket[] = [];
  const arrived = Promise.withResolvers<void>();
  const server = net.createServer({ allowHalfOpen: true, noDelay: true });
  server.on(kind === "TLS" ? "secureConnection" : "connection", (socket: Socket) => {
    accepted.push(socket.on("error", () => {}));
    if (accepted.length === count) arrived.resolve();
  });
  const port = await listen(server);
  const clients = Array.from({ length: count }, () =>
    net.connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true }).on("error", () => {}),
  );
  cleanup(() => {
    for (const socket of [...clients, ...accepted]) socket.destroy();
    server.close();
  });
  await arrived.promise;
  const reads = SocketReads.of(accepted[0] as Socket);
  if (reads === null) throw new Error("this Node has other sockets");
  const byPort = new Map(accepted.map((socket) => [socket.remotePort, socket]));
  return clients.map((client) => ({ client, accepted: byPort.get(client.localPort) as Socket, reads }));
}

export async function openPair(cleanup: Cleanup, kind: Kind): Promise<Pair> {
  const [pair] = await openPairs(cleanup, kind, 1);
  return pair as Pair;
}

/** Longer than the 5 s of the configuration: a busy machine needs more to encrypt megabytes. */
export const poll = <T>(read: () => T) => expect.poll(read, { interval: 2 });

export const once = (socket: Socket | Server, event: string): Promise<unknown> =>
  new Promise((resolve) => socket.once(event, resolve));

/** Reads the stream of a socket to its end. */
export async function text(socket: Socket): Promise<string> {
  let all = "";
  socket.setEncoding("latin1").on("data", (piece: string) => {
    all += piece;
  });
  const ended = once(socket, "end");
  socket.resume();
  await ended;
  return all;
}

/** What a socket's callback has got. */
export function collected() {
  const pieces: string[] = [];
  const onBytes = (bytes: Buffer): void => void pieces.push(bytes.toString("latin1"));
  return { pieces, onBytes, all: () => pieces.join("") };
}
