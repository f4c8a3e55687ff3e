// Servers of a test on free loopback ports, and one that is closed after the test together with its connections.
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import type { Cleanup } from "./cleanup.ts";

export interface LoopbackServer {
  readonly url: string;
  /** The open connections. */
  readonly sockets: ReadonlySet<Socket>;
}

export async function startLoopbackServer(cleanup: Cleanup, serve: (socket: Socket) => void): Promise<LoopbackServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    serve(socket);
  });
  const port = await listen(server);
  cleanup(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return { url: `http://127.0.0.1:${port}`, sockets };
}

/** Listens on a free port of loopback, and returns it. */
export async function listen(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}
