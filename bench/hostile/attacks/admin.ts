// Attacks on the admin listener, whose probes decide whether a pod is restarted.
import { join } from "node:path";
import { type Attack, type Sender, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { fieldLines } from "./requests.ts";

const head = (target: string, more = ""): Buffer => text(`GET ${target} HTTP/1.1\r\nHost: admin.test\r\n${more}\r\n`);

function admin(name: string, what: string, options: StreamOptions): Attack {
  return { name, carrier: "admin", what, send: stream({ port: "admin", ...options }) };
}

/** Everybody else waits while the gateway loads and compiles what it needs for the first request of a kind. */
function first(name: string, what: string, bytes: Buffer | null): Attack {
  return {
    ...{ name: `admin-first-${name}`, carrier: "admin", what: `the first ${what}`, others: "kept", longestWaitMs: 15 },
    // The token of the file is `bench`.
    keys: { admin: { tokensFile: join(import.meta.dirname, "admin-tokens.txt") } },
    async send(sender) {
      const line = sender.open({ port: "admin" });
      if (bytes !== null) line.write(bytes, 1);
      await sender.hold();
    },
  };
}

const bearer = "Authorization: Bearer bench\r\n";
const call = (fields: string): Buffer => text(`GET /api/status HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n`);

export const adminAttacks: readonly Attack[] = [
  first("connection", "connection", null),
  first("scrape", "scrape", head("/metrics")),
  first("call", "call of the API", call(bearer)),
  first("unauthorized", "call of the API, without a token", call("")),
  first("foreign", "call of the API, from a page of another origin", call(`${bearer}Origin: http://evil.test\r\n`)),
  admin("admin-idle", "256 idle connections", { connections: 256, next: () => null }),
  admin("admin-heads-held", "256 heads that stay incomplete", {
    connections: 256,
    prelude: text("GET /livez HTTP/1.1\r\nX: "),
    next: () => null,
  }),
  admin("admin-heads-trickle", "256 heads that grow by a byte at a time", {
    connections: 256,
    prelude: text("GET /livez HTTP/1.1\r\nX: "),
    next: again(text("x")),
    bytesPerSecond: 200_000,
  }),
  admin("admin-unread", "responses that nobody reads", {
    connections: 50,
    reads: false,
    next: again(head("/metrics")),
    requests: 1,
    bytesPerSecond: 20_000,
  }),
  admin("admin-metrics", "scrapes, 20 a second", {
    connections: 4,
    next: again(head("/metrics")),
    requests: 1,
    bytesPerSecond: 20 * 90,
  }),
  {
    name: "admin-metrics-flood",
    carrier: "admin",
    what: "scrapes on 20 connections, each as soon as the last one is answered",
    others: "kept",
    send: async (sender) => {
      for (let i = 0; i < 20 * sender.share; i += 1) scrapeAgain(sender);
      await sender.hold();
    },
  },
  admin("admin-not-found", "404", { connections: 8, next: again(head("/none")), requests: 1, bytesPerSecond: 100_000 }),
  admin("admin-fields", "180 fields", {
    connections: 8,
    next: again(head("/livez", fieldLines(180, "x".repeat(60)))),
    requests: 1,
  }),
  admin("admin-body", "a POST whose body does not end", {
    connections: 4,
    prelude: text("POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
    preludeRequests: 1,
    next: again(text("1\r\nx\r\n".repeat(200))),
  }),
];

function scrapeAgain(sender: Sender): void {
  const line = sender.open({ port: "admin" });
  const request = head("/metrics");
  let received = "";
  line.socket.on("data", (data: Buffer) => {
    received += data.toString("latin1");
    const headEnd = received.indexOf("\r\n\r\n");
    const length = Number(/^content-length: *(\d+)/im.exec(received)?.[1]);
    if (headEnd === -1 || received.length < headEnd + 4 + length) return;
    received = "";
    if (!sender.isOver) line.write(request, 1);
  });
  line.write(request, 1);
}
