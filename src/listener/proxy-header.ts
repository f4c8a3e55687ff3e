// Reads the PROXY header with which each connection begins if `listen.proxyProtocol` is set, bounded in bytes and in
// time. The HTTP parser gets the bytes after it unchanged.
import type { Socket } from "node:net";
import { type CompleteProxyHeader, type ProxyHeaderRefusal, readProxyHeader } from "../core/proxy-header.ts";
import { readFirstBytes } from "./first-bytes.ts";

export interface ProxyHeaderHandlers {
  /** The socket is paused. */
  readonly onHeader: (header: CompleteProxyHeader) => void;
  /** The connection is closed. */
  readonly onRefused: (reason: ProxyHeaderRefusal) => void;
}

export function takeProxyHeader(socket: Socket, timeoutMs: number, { onHeader, onRefused }: ProxyHeaderHandlers): void {
  readFirstBytes(socket, timeoutMs, {
    onBytes(received) {
      const header = readProxyHeader(received);
      if (header.kind === "incomplete") return null;
      if (header.kind === "complete") return { taken: header.byteCount, next: () => onHeader(header) };
      const refuse = (): void => {
        onRefused("invalid");
        socket.destroy();
      };
      return { taken: 0, next: refuse };
    },
    onTimeout: () => onRefused("timeout"),
    onClose(receivedBytes) {
      // A balancer that only checks whether the port is open sends nothing, which is no error.
      if (receivedBytes > 0) onRefused("incomplete");
    },
  });
}
