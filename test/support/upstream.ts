// Upstreams for tests: a node:http server that keeps what it was sent, and a bare TCP server that answers with exactly
// the bytes it is told to, however wrong.
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { listen } from "./loopback-server.ts";

export interface ReceivedRequest {
  readonly method: string;
  readonly target: string;
  /** Names and values alternating, as they came. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface TestUpstream {
  readonly url: string;
  readonly port: number;
  /** Requests that arrived whole. */
  readonly received: ReceivedRequest[];
  /** Requests whose head arrived. */
  readonly hits: () => number;
  close(): Promise<void>;
}

/** Answers with `respond` once the body is there. */
export async function startUpstream(
  respond: (req: IncomingMessage, res: ServerResponse, body: Buffer) => void = (_req, res) => void res.end("ok"),
  port = 0,
): Promise<TestUpstream> {
  const received: ReceivedRequest[] = [];
  let hits = 0;
  const listener: RequestListener = (req, res) => {
    hits += 1;
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("error", () => {});
    req.on("end", () => {
      const body = Buffer.concat(chunks);
      received.push({ method: req.method ?? "", target: req.url ?? "", rawHeaders: req.rawHeaders, body });
      respond(req, res, body);
    });
  };
  const server = createServer(
    { requireHostHeader: false, keepAliveTimeout: 30_000, maxHeaderSize: 1_048_576 },
    listener,
  );
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    received,
    hits: () => hits,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export interface RawUpstream {
  readonly url: string;
  readonly port: number;
  readonly sockets: Set<Socket>;
  /** Everything that was sent to it, in order of arrival. */
  readonly bytes: () => string;
  close(): Promise<void>;
}

/** `onData` is called with each piece and may write, end or destroy. */
export async function startRawUpstream(onData: (socket: Socket, data: Buffer) => void): Promise<RawUpstream> {
  const sockets = new Set<Socket>();
  let bytes = "";
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    // Otherwise a second small write waits for the next request, and looks as if it had come after it.
    socket.setNoDelay(true);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    socket.on("data", (data: Buffer) => {
      bytes += data.toString("latin1");
      onData(socket, data);
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    sockets,
    bytes: () => bytes,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
