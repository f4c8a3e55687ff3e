// Opens a listener.
import type { AddressInfo, Server } from "node:net";
import type { HostPort } from "../core/ip-address.ts";

export interface ListenAddress extends HostPort {
  /** Other threads open the same port. Default: false. */
  readonly isShared?: boolean;
}

/** Rejects with the system's error if the server cannot listen. Port 0 picks a free one. */
export async function listen(
  server: Server,
  { host, port, isShared = false }: ListenAddress,
  onFailure: (error: unknown) => void,
): Promise<HostPort> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, reusePort: isShared }, () => {
      server.off("error", reject);
      // The system could not accept a connection. Without a listener the error would end the process.
      server.on("error", onFailure);
      resolve();
    });
  });
  const address = server.address() as AddressInfo;
  return { host: address.address, port: address.port };
}
