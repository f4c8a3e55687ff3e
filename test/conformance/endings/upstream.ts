// An upstream that ends each request in the way that its path names, and tells when a request has arrived.
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Cleanup } from "../../support/cleanup.ts";
import { within } from "../../support/eventually.ts";
import { maxWaitMs } from "./peer.ts";

const head = "HTTP/1.1 200 OK\r\nContent-Length: ";
const whole = (body: string, fields = ""): string => `${head}${body.length}\r\n${fields}\r\n${body}`;
const part = `${head}1000\r\n\r\npart!`;
const chunkedPart = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npart!\r\n";
const switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nopen!";
/** More than kernels keep for a connection on both sides. */
const large = Buffer.alloc(6_000_000, "x");

type Behaviour = (socket: Socket) => void;

/** The TCP connections beneath those of TLS. */
const beneath = new WeakMap<Socket, Socket>();
const reset: Behaviour = (socket) => void (beneath.get(socket) ?? socket).resetAndDestroy();
/** A reset discards what was written in the same turn. */
const resetLater: Behaviour = (socket) => void setTimeout(reset, 2, socket);

/** The ways in which a response can end; each ends by itself. */
export const responseEndings = {
  whole: (socket) => void socket.write(whole("ok!")),
  "whole, then FIN": (socket) => void socket.end(whole("ok!")),
  "with Connection: close": (socket) => void socket.end(whole("ok!", "Connection: close\r\n")),
  "by FIN": (socket) => void socket.end("HTTP/1.1 200 OK\r\n\r\nok!"),
  "none, but FIN": (socket) => void socket.end(),
  "none, but a reset": reset,
  "FIN in its head": (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-"),
  "reset in its head": (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-");
    resetLater(socket);
  },
  "FIN in its body": (socket) => void socket.end(part),
  "FIN in its chunks": (socket) => void socket.end(chunkedPart),
  "reset in its body": (socket) => {
    socket.write(part);
    resetLater(socket);
  },
  "bad chunk": (socket) => void socket.write(`${chunkedPart}no\r\n`),
  "not HTTP": (socket) => void socket.write("what?\r\n\r\n"),
  "head too large": (socket) => void socket.write(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`),
  "101 unasked": (socket) => void socket.write(switched),
  "interim, then reset": (socket) => {
    socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    resetLater(socket);
  },
  "two responses": (socket) => void socket.write(whole("ok!") + whole("late")),
} satisfies Readonly<Record<string, Behaviour>>;

const behaviours: Readonly<Record<string, Behaviour>> = {
  ...Object.fromEntries(Object.entries(responseEndings).map(([name, end]) => [pathOf(name), end])),
  "/v2/ok": (socket) => void socket.write(whole("ok!")),
  "/v2/never": () => {},
  "/v2/part": (socket) => void socket.write(part),
  "/v2/large": (socket) => {
    socket.write(`${head}${large.length}\r\n\r\n`);
    socket.write(large);
  },
  "/v2/tunnel": (socket) => void socket.write(switched),
  "/v2/tunnel-fin": (socket) => void socket.end(switched),
  "/v2/tunnel-half-closed": (socket) => void socket.write(switched, () => socket.end()),
  "/v2/tunnel-reset": (socket) => {
    socket.write(switched);
    resetLater(socket);
  },
  "/v2/tunnel-large": (socket) => {
    socket.write(switched);
    socket.write(large);
  },
  "/v2/tunnel-unread": (socket) => {
    socket.write(switched);
    socket.pause();
  },
  "/v2/tunnel-refused": (socket) => void socket.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nok!"),
};

export function pathOf(name: string): string {
  return `/v2/${name.replaceAll(/[^a-z0-9]+/gi, "-").toLowerCase()}`;
}

export class EndingUpstream {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #arrivals = new Map<string, () => void>();
  /** By the port of the gateway. */
  readonly #beneath = new Map<number | undefined, Socket>();
  #requests = 0;

  constructor(tls: { readonly cert: string; readonly key: string } | null, cleanup: Cleanup) {
    const accept = (socket: Socket): void => this.#accept(socket);
    this.#server = tls === null ? createServer(accept) : createTlsServer(tls, accept);
    if (tls !== null) this.#server.on("connection", (tcp: Socket) => this.#beneath.set(tcp.remotePort, tcp));
    this.#server.on("tlsClientError", (_error: Error, socket: Socket) => void socket.destroy());
    cleanup(() => this.#server.close());
    cleanup(() => this.closeAll());
  }

  /** Resolves with its port. */
  async listen(): Promise<number> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  /** Makes a target that no other request has; its arrival can be waited for. */
  target(path: string): { readonly target: string; readonly arrived: Promise<void> } {
    this.#requests += 1;
    const target = `${path}?${this.#requests}`;
    const arrival = new Promise<void>((resolve) => this.#arrivals.set(target, resolve));
    return { target, arrived: within(`${target} arrives at the upstream`, arrival, maxWaitMs) };
  }

  closeAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    const tcp = this.#beneath.get(socket.remotePort);
    if (tcp !== undefined) beneath.set(socket, tcp);
    this.#beneath.delete(socket.remotePort);
    socket.setNoDelay(true);
    socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
    socket.on("data", (data: Buffer) => {
      const [, target = ""] = /^[A-Z]+ (\S+) HTTP/.exec(data.toString("latin1", 0, 200)) ?? [];
      this.#arrivals.get(target)?.();
      this.#arrivals.delete(target);
      const [path = ""] = target.split("?");
      behaviours[path]?.(socket);
    });
  }
}
