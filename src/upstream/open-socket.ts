// Opens a connection to the upstream, TCP and TLS, within a timeout.
import { connect, type Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import type { ReadBuffers } from "./read-buffers.ts";
import { SocketReader } from "./socket-reader.ts";
import { TlsRefused } from "./tls-refused.ts";
import { UpstreamFailure } from "./upstream-failure.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

export interface OpenSocketOptions {
  readonly host: string;
  readonly port: number;
  /** Null: plain TCP. */
  readonly tls: UpstreamTls | null;
  /** For TCP and the TLS handshake together. */
  readonly timeoutMs: number;
  readonly allowHalfOpen?: boolean;
  /** For connections that are read without streams. */
  readonly buffers?: ReadBuffers;
}

type Ready = (error: Error | null, reader: SocketReader | null) => void;

/** Calls `ready` once. Returns a function that cancels the opening; `ready` is not called after it. */
export function openSocket(options: OpenSocketOptions, ready: Ready): () => void {
  const { host, port, tls, timeoutMs, allowHalfOpen = false, buffers } = options;
  const address = { host, port, allowHalfOpen, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
  // TLS and tunnels, which are half-open, read the socket as a stream.
  const reader = tls === null && !allowHalfOpen ? SocketReader.connect(address, buffers) : null;
  const raw = reader?.socket ?? connect(address);
  let socket: Socket = raw;
  const stop = (): void => {
    clearTimeout(timer);
    raw.off("connect", onConnect).off("error", fail);
    socket.off("secureConnect", succeed).off("error", fail);
  };
  const cancel = (): void => {
    stop();
    for (const each of [socket, raw]) each.on("error", ignoreError).destroy();
  };
  const fail = (error: Error): void => {
    cancel();
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
  const timer = setTimeout(() => fail(new UpstreamFailure("UPSTREAM_CONNECT_TIMEOUT")), timeoutMs);
  raw.once("connect", onConnect).once("error", fail);
  return cancel;
}
