// What Node's parser does with pipelined requests after the one that was the last to be read.
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { stopParsingWhen } from "../../src/admin/connections.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { listen } from "../support/loopback-server.ts";

const cleanup = useCleanup();

/** The heads that Node's parser made requests of, and the events of the server, with `bytes` in one write. */
async function parsed(bytes: string, maxRequests: number): Promise<{ heads: number; events: string[] }> {
  const server = createServer();
  const events: string[] = [];
  let heads = 0;
  server.on("connection", (socket: Socket) => {
    const parser: { onIncoming(...head: unknown[]): number } = Reflect.get(socket, "parser");
    const onIncoming = parser.onIncoming;
    stopParsingWhen(socket, () => events.length >= maxRequests);
    const stopping = parser.onIncoming;
    parser.onIncoming = (...head) => {
      heads += 1;
      return stopping(...head);
    };
    expect(stopping).not.toBe(onIncoming);
  });
  for (const name of ["request", "upgrade", "connect", "clientError"]) server.on(name, () => events.push(name));
  await listen(cleanup(server));
  const client = cleanup(connect((server.address() as AddressInfo).port, "127.0.0.1"));
  client.on("error", () => {});
  client.write(bytes);
  await eventually("it is parsed", () => events.length >= maxRequests);
  // A second connection shows that the first one's bytes have been read.
  const other = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(other, "connect");
  other.destroy();
  return { heads, events };
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const upgrade = get.replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");

test.each([
  ["requests", get],
  ["upgrades", upgrade],
  ["requests with a body", get.replace("\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc")],
])("of %s behind the last request none is parsed beyond its head, and none is an event", async (_, rest) => {
  const { heads, events } = await parsed(get.repeat(10) + rest.repeat(1_000), 10);
  expect(events).toEqual(new Array(10).fill("request"));
  expect(heads).toBeLessThanOrEqual(11);
});

test("up to the last request all are parsed", async () => {
  expect(await parsed(get.repeat(500), 500)).toEqual({ heads: 500, events: new Array(500).fill("request") });
});
