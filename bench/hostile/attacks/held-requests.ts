// Several addresses that take all connections to the upstream that they can, with requests that are not answered, and let
// none go: at the same time, or one address after the other. The other clients must not notice.
import { type Attack, connectionBytes } from "../attack.ts";
import { get, unlimited } from "./requests.ts";

/** Each is more than twice the number of addresses, so the next client must be served. */
const cases: readonly { readonly pool: number; readonly addresses: readonly number[] }[] = [
  { pool: 16, addresses: [1, 3] },
  { pool: 256, addresses: [1, 3, 10] },
  { pool: 4096, addresses: [1, 3, 10, 100] },
];

export const heldRequests: readonly Attack[] = cases.flatMap(({ pool, addresses }) =>
  addresses.flatMap((count) => [held(pool, count, false), held(pool, count, true)]),
);

function held(pool: number, addresses: number, isInTurn: boolean): Attack {
  const order = isInTurn ? inTurn(pool, addresses) : atTheSameTime(pool, addresses);
  return {
    name: `held-${addresses}-of-${pool}${isInTurn ? "-in-turn" : ""}`,
    carrier: "http1",
    openingSeconds: pool > 1000 ? 10 : 1,
    what: `${addresses} addresses hold what they get of ${pool} connections to the upstream${isInTurn ? ", one after the other" : ""}`,
    keys: {
      ...unlimited,
      upstream: { maxConnections: pool },
      listen: { maxConnectionsPerPeer: 10_000, newConnectionsPerPeer: 100_000 },
    },
    send: async (sender) => {
      const left = order.slice(0, Math.ceil(order.length * sender.share));
      await sender.paced(1_000_000, () => {
        const address = left.shift();
        if (address === undefined) return 0;
        const line = sender.open({ localAddress: `127.0.10.${address + 1}` });
        return connectionBytes + line.write(get("/v1/never"), 1);
      });
    },
  };
}

/** Each asks for more than it gets. What is over waits, and is refused. */
function atTheSameTime(pool: number, addresses: number): number[] {
  const each = 4 + Math.ceil((1.2 * pool) / (addresses + 1));
  return Array.from({ length: each * addresses }, (_, i) => i % addresses);
}

/** The first asks for more than a half, the second for more than a quarter, and so on. */
function inTurn(pool: number, addresses: number): number[] {
  return Array.from({ length: addresses }, (_, address) => {
    const count = 4 + Math.ceil((1.2 * pool) / 2 ** (address + 1));
    return Array<number>(count).fill(address);
  }).flat();
}
