// The admin listener, apart from the traffic, and beside it a Unix socket.
import { createServer, type Server } from "node:net";
import type { HostPort } from "../core/ip-address.ts";
import { listen } from "../exchange/listen.ts";
import { type AdminAppOptions, openAdminApp } from "./app.ts";
import { AdminConnections, type AdminConnectionsOptions } from "./connections.ts";
import { listenOnSocket } from "./unix-socket.ts";

export interface AdminOptions extends AdminConnectionsOptions, AdminAppOptions, HostPort {
  /** A connection could not be accepted. */
  readonly onFailure: (error: unknown) => void;
}

export interface Admin extends HostPort {
  /** Call it before a tokens file is in force. */
  openApi(): Promise<void>;
  /** Closes the listener and every connection to it. */
  close(): Promise<void>;
}

/** Port 0 picks a free one. Rejects with the system's error if it cannot listen, or with a UnixSocketError. */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const connections = new AdminConnections(options);
  const app = await openAdminApp(options, connections);
  const create = (isUnixSocket: boolean): Server =>
    createServer({ allowHalfOpen: true, noDelay: !isUnixSocket, pauseOnConnect: true }, (socket) => {
      connections.accept(socket, { isUnixSocket });
      app.serve(socket);
    });
  const [tcp, unix] = [create(false), create(true)];
  const open = async () => {
    const { host, port } = await listen(tcp, options, options.onFailure);
    return { host, port, removeSocket: await openSocket(unix, options) };
  };
  const { host, port, removeSocket } = await open().catch(async (error) => {
    await Promise.all([closed(tcp), app.close()]);
    throw error;
  });
  return {
    ...{ host, port, openApi: app.openApi },
    async close() {
      const allClosed = Promise.all([closed(tcp), closed(unix), removeSocket()]);
      connections.destroyAll();
      await app.close();
      await allClosed;
    },
  };
}

/** Resolves with the function that removes its file. */
async function openSocket(server: Server, { socket, onFailure }: AdminOptions): Promise<() => Promise<void>> {
  if (socket === null) return async () => {};
  const remove = await listenOnSocket(server, socket);
  // The system could not accept a connection. Without a listener the error would end the process.
  server.on("error", onFailure);
  return remove;
}

/** Resolves at once for one that does not listen. */
function closed(server: Server): Promise<unknown> {
  return new Promise((resolve) => void server.close(resolve));
}
