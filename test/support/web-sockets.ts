// WebSocket by the ws package: an upstream that does what a test says, a gateway in front of it, and clients with a token.
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type ClientOptions, type ServerOptions, WebSocket, WebSocketServer } from "ws";
import type { Clock } from "../../src/core/clock.ts";
import type { Cleanup } from "./cleanup.ts";
import { within } from "./eventually.ts";
import { type Overrides, startTestGateway, type TestGateway } from "./gateway.ts";
import { listen } from "./loopback-server.ts";

export interface WebSocketUpstream {
  readonly port: number;
  /** Upgrade requests the upstream accepted. */
  readonly requests: readonly IncomingMessage[];
  readonly sockets: readonly WebSocket[];
}

export interface WebSocketStage extends Omit<WebSocketUpstream, "port"> {
  readonly gateway: TestGateway;
  open(options?: ClientOptions): Promise<WebSocket>;
}

export async function startWebSocketUpstream(
  cleanup: Cleanup,
  onSocket: (socket: WebSocket) => void,
  options: ServerOptions = {},
): Promise<WebSocketUpstream> {
  const requests: IncomingMessage[] = [];
  const sockets: WebSocket[] = [];
  const http = createServer();
  const server = new WebSocketServer({ server: http, ...options });
  server.on("connection", (socket, req) => {
    requests.push(req);
    sockets.push(socket);
    socket.on("error", () => {});
    onSocket(socket);
  });
  const port = await listen(http);
  cleanup(() => {
    for (const socket of sockets) socket.terminate();
    http.closeAllConnections();
    http.close();
  });
  return { port, requests, sockets };
}

export async function stageWebSockets(
  cleanup: Cleanup,
  onSocket: (socket: WebSocket) => void,
  overrides: Overrides = {},
  options: ServerOptions = {},
  clock?: Clock,
): Promise<WebSocketStage> {
  const { port, requests, sockets } = await startWebSocketUpstream(cleanup, onSocket, options);
  const upstreamUrl = `http://127.0.0.1:${port}`;
  const gateway = await startTestGateway({
    upstreamUrl,
    overrides: { drain: { timeoutMs: 0 }, ...overrides },
    ...(clock === undefined ? {} : { clock }),
  });
  cleanup(() => gateway.close());
  return {
    gateway,
    requests,
    sockets,
    async open(clientOptions = {}) {
      const headers = { Authorization: "Bearer secret-token" };
      const scheme = overrides.listen?.tls ? "wss" : "ws";
      const url = `${scheme}://127.0.0.1:${gateway.traffic.port}/v2/live?a=1`;
      const client = new WebSocket(url, { headers, ...clientOptions });
      cleanup(() => client.terminate());
      client.on("error", () => {});
      await within("the tunnel opens", once(client, "open"));
      return client;
    },
  };
}

/** What the gateway says of its tunnels, read where an operator would. */
export async function tunnels(gateway: TestGateway): Promise<{ opening: number; open: number }> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const figure = (state: string): number => {
    const match = new RegExp(`^headgate_tunnels\\{state="${state}"\\} (\\d+)$`, "m").exec(text);
    if (match === null) throw new Error(`no figure for ${state} tunnels`);
    return Number(match[1]);
  };
  return { opening: figure("opening"), open: figure("open") };
}
