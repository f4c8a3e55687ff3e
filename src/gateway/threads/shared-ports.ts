// The ports that all threads open. The system lets any process of the same user open such a port too, and spreads the
// connections over both; so the main thread makes sure first that the ports are free.
import { createServer, type Server } from "node:net";
import type { HostPort } from "../../core/ip-address.ts";
import { type Addresses, ListenError, type ListenerName, type ListenSettings } from "../open-listeners.ts";

/** Opens all ports and closes them again. Rejects with a ListenError if one cannot be opened. */
export async function assertFree({ listen, extAuth }: ListenSettings): Promise<void> {
  const listeners: readonly (readonly [ListenerName, HostPort | null])[] = [
    ["ext-auth", extAuth.http],
    ["grpc", extAuth.grpc],
    ["traffic", listen],
  ];
  const open: Server[] = [];
  try {
    for (const [name, address] of listeners) {
      // The system picks a port that nobody has.
      if (address === null || address.port === 0) continue;
      const server = createServer((socket) => socket.destroy());
      await opened(server, address).catch((error) => {
        throw new ListenError(name, address, error);
      });
      open.push(server);
    }
  } finally {
    await Promise.all(open.map((server) => new Promise((resolve) => void server.close(resolve))));
  }
}

/** The settings with the addresses that the first thread has opened, for the other threads. */
export function listenAt({ listen, extAuth }: ListenSettings, addresses: Addresses): ListenSettings {
  return {
    listen: { ...listen, ...addresses.traffic },
    extAuth: {
      ...extAuth,
      http: extAuth.http && { ...extAuth.http, ...addresses.extAuth },
      grpc: extAuth.grpc && { ...extAuth.grpc, ...addresses.grpc },
    },
  };
}

function opened(server: Server, { host, port }: HostPort): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, resolve);
  });
}
