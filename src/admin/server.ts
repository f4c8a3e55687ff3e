// The admin listener, apart from the traffic, and beside it a Unix socket. Both are open from the start; what answers is loaded
// when the first connection comes. Until then connections wait unread, within the same bounds.
import { createServer, type Server, type Socket } from "node:net";
import type { HostPort } from "../core/ip-address.ts";
import { listen } from "../exchange/listen.ts";
import type { AdminApp, AdminAppOptions } from "./app.ts";
import { AdminConnections, type AdminConnectionsOptions } from "./connections.ts";
import { listenOnSocket } from "./unix-socket.ts";

export interface AdminOptions extends AdminConnectionsOptions, AdminAppOptions, HostPort {
  /** The path of the Unix socket; null: there is none. */
  readonly socket: string | null;
  /** A connection could not be accepted, or what answers could not be loaded. */
  readonly onFailure: (error: unknown) => void;
}

export interface Admin extends HostPort {
  /** Closes the listener and every connection to it. */
  close(): Promise<void>;
}

/** Opens what answers. */
export type OpenApp = typeof openApp;

/**
 * Port 0 picks a free one. Rejects with the system's error if it cannot listen, or with a UnixSocketError. A test replaces
 * `open`.
 */
export async function startAdmin(options: AdminOptions, open: OpenApp = openApp): Promise<Admin> {
  const connections = new AdminConnections(options);
  const loading = new LazyApp(() => open(options, connections), options.onFailure);
  const servers = [false, true].map((isUnixSocket) =>
    createServer({ allowHalfOpen: true, noDelay: !isUnixSocket, pauseOnConnect: true }, (socket) => {
      connections.accept(socket, { isUnixSocket });
      loading.serve(socket);
    }),
  );
  const [tcp, unix] = servers as [Server, Server];
  const { host, port } = await listen(tcp, options, options.onFailure);
  const removeSocket = await openSocket(unix, options).catch(async (error) => {
    await closed(tcp);
    throw error;
  });
  return {
    host,
    port,
    async close() {
      const allClosed = Promise.all([closed(tcp), closed(unix), removeSocket()]);
      connections.destroyAll();
      await loading.close();
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

async function openApp(options: AdminAppOptions, connections: AdminConnections): Promise<AdminApp> {
  const { openAdminApp } = await import("./app.ts");
  return openAdminApp(options, connections);
}

/** Opens the app for the first connection. */
class LazyApp {
  readonly #open: () => Promise<AdminApp>;
  readonly #onFailure: AdminOptions["onFailure"];
  #app: AdminApp | null = null;
  #loading: Promise<void> | null = null;
  #waiting: Socket[] = [];

  constructor(open: () => Promise<AdminApp>, onFailure: AdminOptions["onFailure"]) {
    this.#open = open;
    this.#onFailure = onFailure;
  }

  serve(socket: Socket): void {
    if (this.#app !== null) {
      this.#app.serve(socket);
      return;
    }
    // Those that are over the bound have been closed.
    this.#waiting = [...this.#waiting.filter(({ destroyed }) => !destroyed), socket];
    this.#loading ??= this.#load();
  }

  /** Its connections are closed by the caller. */
  async close(): Promise<void> {
    await this.#loading;
    await this.#app?.close();
  }

  /** Never rejects. If it fails, the next connection tries again. */
  async #load(): Promise<void> {
    try {
      this.#app = await this.#open();
    } catch (error) {
      this.#loading = null;
      this.#onFailure(error);
    }
    for (const socket of this.#waiting.splice(0)) {
      if (this.#app === null) socket.destroy();
      else if (!socket.destroyed) this.#app.serve(socket);
    }
  }
}
