// Opens a listener. Its connections have TCP keepalive: a balancer or a translator of addresses forgets a silent connection
// after 4 to 6 minutes (Azure 240 s, AWS 350 s), and the next request on it would be lost.
import type { AddressInfo, Server, Socket } from "node:net";
import type { HostPort } from "../core/ip-address.ts";

export interface ListenAddress extends HostPort {
  /** Other threads open the same port. Default: false. */
  readonly isPortShared?: boolean;
}

/** Rejects with the system's error if the server cannot listen. Port 0 picks a free one. */
export async function listen(
  server: Server,
  { host, port, isPortShared = false }: ListenAddress,
  onFailure: (error: unknown) => void,
): Promise<HostPort> {
  server.on("connection", keepTcpAlive);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, reusePort: isPortShared }, () => {
      server.off("error", reject);
      // The system could not accept a connection. Without a listener the error would end the process.
      server.on("error", onFailure);
      resolve();
    });
  });
  const address = server.address() as AddressInfo;
  return { host: address.address, port: address.port };
}

/** After two minutes without a packet, then every 30 s. A client out of reach for less than five minutes keeps its connection. */
function keepTcpAlive(socket: Socket): void {
  socket.setKeepAlive(true, 120_000, 30_000, 10);
}
