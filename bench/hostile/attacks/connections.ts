// HTTP/1.1 connections that are held, or opened and closed again and again.
import { type Attack, connectionBytes, text } from "../attack.ts";
import { again, stream } from "../stream.ts";
import { get, unlimited } from "./requests.ts";

const carrier = "http1";
const silent = (): null => null;

const held: readonly Attack[] = [
  {
    name: "connections-idle",
    carrier,
    what: "1,000 connections without a byte",
    send: stream({ connections: 1000, next: silent }),
  },
  {
    name: "connections-opened",
    carrier,
    what: "connections opened and closed",
    send: stream({ connections: 20, next: again(text("G")), closesAfter: 1, bytesPerSecond: 200_000 }),
  },
  {
    name: "connections-over-limit",
    carrier,
    what: "3,000 connections, three times the limit of one address",
    send: stream({ connections: 3000, prelude: text("GET "), next: silent }),
  },
  {
    name: "heads-trickle",
    carrier,
    what: "900 heads that grow by a byte at a time",
    send: stream({
      connections: 900,
      prelude: text("GET /v1/ok HTTP/1.1\r\nX: "),
      preludeRequests: 1,
      next: again(text("x")),
      bytesPerSecond: 200_000,
    }),
  },
  {
    name: "responses-unread",
    carrier,
    what: "90 responses of 8 MiB that nobody reads",
    send: stream({
      connections: 90,
      reads: false,
      prelude: get("/v1/large/8388608"),
      preludeRequests: 1,
      next: silent,
    }),
  },
  {
    name: "responses-unread-pipelined",
    carrier,
    what: "local replies that nobody reads, 404",
    send: stream({ connections: 50, reads: false, next: again(get("/none")), requests: 1, bytesPerSecond: 300_000 }),
  },
  {
    name: "requests-cancelled",
    carrier,
    what: "requests whose clients leave at once",
    keys: unlimited,
    send: stream({
      connections: 20,
      prelude: get("/v1/ok"),
      preludeRequests: 1,
      next: again(text("G")),
      closesAfter: 1,
      bytesPerSecond: 200_000,
    }),
  },
  {
    name: "connections-fresh",
    carrier,
    what: "GET, each on a new connection, 1,000 a second",
    keys: { ...unlimited, listen: { newConnectionsPerPeer: 1_000_000 } },
    others: "kept",
    send: stream({
      connections: 50,
      prelude: get("/v1/ok", "Connection: close\r\n"),
      preludeRequests: 1,
      next: silent,
      bytesPerSecond: 1_000 * (connectionBytes + 150),
    }),
  },
  {
    name: "answers-never-come",
    carrier,
    what: "100 requests that the upstream does not answer, before an upstream with 64 connections",
    keys: { upstream: { maxConnections: 64 } },
    send: stream({ connections: 100, prelude: get("/v1/never"), preludeRequests: 1, next: silent }),
  },
];

/** The other clients open new connections too. */
export const connections: readonly Attack[] = held.map((attack) => ({ others: "fresh", ...attack }));
