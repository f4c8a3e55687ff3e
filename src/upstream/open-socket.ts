// Opens a connection to the upstream, TCP and TLS, within a timeout.
import { connect, type OnReadOpts, type Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { type ReadBuffers, SocketReader } from "./socket-reader.ts";
import { TlsRefused, UpstreamFailure } from "./upstream-error.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

interface OpenSocketOptions {
  readonly host: string;
  readonly port: number;
  /** Null: plain TCP. */
  readonly tls: UpstreamTls | null;
  /** For TCP and the TLS handshake together. */
  readonly timeoutMs: number;
  /** The socket is half-open and a stream, as a tunnel needs it. */
  readonly isStream?: boolean;
  /** For connections that are read without streams. */
  readonly buffers?: ReadBuffers;
}

type Ready = (error: Error | null, reader: SocketReader | null) => void;

/** Calls `ready` once. Returns a function that cancels the opening; `ready` is not called after it. */
export function openSocket(options: OpenSocketOptions, ready: Ready): () => void {
  const { tls, timeoutMs, isStream = false, buffers } = options;
  const open = (onread?: OnReadOpts): Socket => begin(options, onread);
  const isPlain = tls === null;
  const reader = isStream ? SocketReader.over(open(), isPlain) : SocketReader.open(open, isPlain, buffers);
  const { socket } = reader;
  const opened = isPlain ? "connect" : "secureConnect";
  const stop = (): void => {
    clearTimeout(timer);
    socket.off(opened, succeed).off("error", fail);
  };
  const cancel = (): void => {
    stop();
    socket.on("error", ignoreError).destroy();
  };
  const fail = (error: Error): void => {
    cancel();
    const isRefused = "authorizationError" in socket && socket.authorizationError;
    ready(isRefused ? new TlsRefused(error) : error, null);
  };
  const succeed = (): void => {
    stop();
    ready(null, reader);
  };
  const timer = setTimeout(() => fail(new UpstreamFailure("UPSTREAM_CONNECT_TIMEOUT")), timeoutMs);
  socket.once(opened, succeed).once("error", fail);
  return cancel;
}

function begin({ host, port, tls, isStream = false }: OpenSocketOptions, onread?: OnReadOpts): Socket {
  const address = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
  const how = { ...address, allowHalfOpen: isStream, ...(onread === undefined ? {} : { onread }) };
  return tls === null ? connect(how) : tls.connect(how);
}
