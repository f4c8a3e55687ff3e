// Many clients at once: what the table of windows costs when clients are exhausted, forgotten or released together. A
// trusted proxy names the clients, and no request reaches the upstream, because the token is missing. The other clients
// are probes, which have no limit.
import { type Attack, attackerAddress, text } from "../attack.ts";
import { stream } from "../stream.ts";

const trusted = { clientAddress: { trustedProxies: [attackerAddress] } };
const perPacket = 14;

function limitedTo(limit: number, memory: string, window: string) {
  return { ...trusted, counters: { memory }, policies: [{ name: "bench", limit, window }] };
}

/** Each request is of another client. */
function manyClients(name: string, what: string, keys: Attack["keys"] = {}): Attack {
  let client = 0;
  const head = (): string => {
    client += 1;
    const address = `10.${(client >> 16) & 255}.${(client >> 8) & 255}.${client & 255}`;
    return `GET /v1/ok HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${address}\r\n\r\n`;
  };
  const next = (): Buffer => text(Array.from({ length: perPacket }, head).join(""));
  const send = stream({ connections: 8, next, requests: perPacket, bytesPerSecond: 300_000 });
  return { name, carrier: "http1", what, keys, others: "probe", send };
}

export const clients: readonly Attack[] = [
  manyClients(
    "clients-exhausted",
    "thousands of clients that exhaust a limit of 1, released after a second",
    limitedTo(1, "32MiB", "1s"),
  ),
  manyClients("clients-forgotten", "several times as many clients as are remembered", limitedTo(100, "1MiB", "60s")),
  manyClients("clients-forgotten-exhausted", "the same with a limit of 1", limitedTo(1, "1MiB", "60s")),
  {
    ...manyClients("clients-beside-store", "thousands of clients under six policies, with a shared store", {
      ...trusted,
      policies: Array.from({ length: 6 }, (_, i) => ({ name: `p${i}`, limit: 100, window: "1s" })),
    }),
    usesStore: true,
  },
  {
    name: "clients-table-large",
    carrier: "http1",
    what: "one client with a limit of 1, in a table of 1 GiB",
    keys: limitedTo(1, "1GiB", "100ms"),
    others: "probe",
    send: stream({ next: () => text("GET /v1/ok HTTP/1.1\r\nHost: a\r\n\r\n"), requests: 1, bytesPerSecond: 20_000 }),
  },
];
