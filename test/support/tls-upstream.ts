// An upstream that speaks TLS, and byte for byte what it is told to inside of it.
import { createServer, type TLSSocket, type TlsOptions } from "node:tls";
import type { Cleanup } from "./cleanup.ts";
import { listen } from "./loopback-server.ts";
import { response } from "./stage.ts";

export interface TlsUpstream {
  readonly port: number;
  /** https://localhost:port */
  readonly url: string;
  /** Every connection whose handshake was done. */
  readonly sockets: TLSSocket[];
  /** Everything that was sent to it, in order of arrival. */
  readonly bytes: () => string;
  readonly setCertificate: (options: TlsOptions) => void;
}

export async function startTlsUpstream(
  cleanup: Cleanup,
  options: TlsOptions,
  onData: (socket: TLSSocket, data: Buffer) => void = (socket) => void socket.write(response("ok")),
): Promise<TlsUpstream> {
  const sockets: TLSSocket[] = [];
  let bytes = "";
  const server = createServer(options, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (data: Buffer) => {
      bytes += data.toString("latin1");
      onData(socket, data);
    });
  });
  server.on("tlsClientError", () => {});
  const port = await listen(server);
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port,
    url: `https://localhost:${port}`,
    sockets,
    bytes: () => bytes,
    setCertificate: (changed) => server.setSecureContext(changed),
  };
}
