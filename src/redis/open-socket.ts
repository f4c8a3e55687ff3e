// Opens a TCP or TLS socket to a server of the store. What arrives is given to `onBytes`, without an event that the
// library could see first. The server's certificate is always verified.
import { connect, isIP, type Socket } from "node:net";
import { checkServerIdentity, connect as connectTls, type SecureContextOptions } from "node:tls";
import { errorCode, ignoreError } from "../core/failure.ts";
import type { HostPort } from "../core/host-port.ts";
import { StoreError, unreachable } from "./call-failure.ts";

const receiveBytes = 16 * 1024;

export interface SocketOptions {
  readonly address: HostPort;
  /** Null: plain. */
  readonly tls: SecureContextOptions | null;
  /** The name in the server's certificate. */
  readonly serverName: string;
  /** Aborts the attempt; the socket that has been opened does not know it any more. */
  readonly signal: AbortSignal;
  /** The bytes are used for others afterwards. */
  readonly onBytes: (bytes: Uint8Array) => void;
}

/** Rejects with a StoreError. */
export function openSocket(options: SocketOptions): Promise<Socket> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    const socket = begin(options);
    // Errors that come later are followed by "close".
    socket.on("error", ignoreError);
    const fail = (detail: string): void => {
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      reject(new StoreError(unreachable(detail)));
    };
    const onAbort = (): void => fail("no connection within the time for it");
    const onError = (error: Error): void => fail(explain(error));
    const onClose = (): void => fail("the server closed the connection");
    signal.addEventListener("abort", onAbort);
    socket.once("error", onError).once("close", onClose);
    socket.once(options.tls === null ? "connect" : "secureConnect", () => {
      socket.off("error", onError).off("close", onClose);
      signal.removeEventListener("abort", onAbort);
      resolve(socket);
    });
    if (signal.aborted) onAbort();
  });
}

function begin({ address: { host, port }, tls, serverName, onBytes }: SocketOptions): Socket {
  const onread = {
    buffer: new Uint8Array(receiveBytes),
    callback: (length: number, buffer: Uint8Array): boolean => {
      onBytes(buffer.subarray(0, length));
      return true;
    },
  };
  const shared = { host, port, onread, noDelay: true, keepAlive: true, keepAliveInitialDelay: 10_000 };
  if (tls === null) return connect(shared);
  return connectTls({
    ...shared,
    ...tls,
    // An address is no server name in TLS.
    ...(isIP(serverName) === 0 && { servername: serverName }),
    rejectUnauthorized: true,
    checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
  });
}

function explain(error: Error): string {
  // Messages of the system repeat the address, those of TLS say in words what the code says.
  return errorCode(error) ?? "the connection failed";
}
