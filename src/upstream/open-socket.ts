// How connections to the upstream are opened, TCP and TLS: in time, or not at all.
import { connect, type Socket } from "node:net";
import { SocketReader } from "./socket-reader.ts";
import { TlsRefused, type UpstreamTls } from "./upstream-tls.ts";

class ConnectTimeout extends Error {
  readonly code = "UPSTREAM_CONNECT_TIMEOUT";

  constructor() {
    super("The upstream did not accept a connection in time.");
  }
}

export interface OpenSocketOptions {
  readonly host: string;
  readonly port: number;
  /** Null: plain TCP. */
  readonly tls: UpstreamTls | null;
  /** For the connection and the handshake together. */
  readonly timeoutMs: number;
  readonly allowHalfOpen?: boolean;
}

type Ready = (error: Error | null, reader: SocketReader | null) => void;

/** Calls `ready` once, unless the function it returns is called before. */
export function openSocket(options: OpenSocketOptions, ready: Ready): () => void {
  const { host, port, tls, timeoutMs, allowHalfOpen = false } = options;
  const address = { host, port, allowHalfOpen, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
  // TLS reads its socket as a stream, and so does a tunnel, for which the connection is open in halves.
  const reader = tls === null && !allowHalfOpen ? SocketReader.connect(address) : null;
  const raw = reader?.socket ?? connect(address);
  let socket: Socket = raw;
  const stop = (): void => {
    clearTimeout(timer);
    raw.off("connect", onConnect).off("error", fail);
    socket.off("secureConnect", succeed).off("error", fail);
  };
  const giveUp = (): void => {
    stop();
    // What it still has to say is of no interest.
    for (const each of [socket, raw]) each.on("error", ignore).destroy();
  };
  const fail = (error: Error): void => {
    giveUp();
    const isRefused = "authorizationError" in socket && socket.authorizationError;
    ready(isRefused ? new TlsRefused(error) : error, null);
  };
  const succeed = (): void => {
    stop();
    ready(null, reader ?? SocketReader.over(socket));
  };
  const onConnect = (): void => {
    if (tls === null) succeed();
    else socket = tls.over(raw).once("secureConnect", succeed).once("error", fail);
  };
  const timer = setTimeout(() => fail(new ConnectTimeout()), timeoutMs);
  raw.once("connect", onConnect).once("error", fail);
  return giveUp;
}

function ignore(): void {}
