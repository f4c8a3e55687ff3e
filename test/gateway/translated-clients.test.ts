// A client whose address a translator has made of an IPv4 address (RFC 6052) is that IPv4 client, where it is counted; what opens
// compares the address as it stands, and the upstream is told it so.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();

/** What is left of 100 for requests of these clients, one after the other; null: the client is exempt. */
async function remainingOf(clients: readonly string[], exempt: readonly string[] = []) {
  const { connect, upstream } = await stageHttp(cleanup, undefined, {
    clientAddress: { trustedProxies: ["127.0.0.1", "198.51.100.1"] },
    policies: [slidingPolicy({ limit: 100, windowMs: 60_000, exempt })],
  });
  const connection = connect();
  const remaining: number[] = [];
  for (const client of clients) {
    connection.write(request("/v2/x", { fields: `X-Forwarded-For: ${client}\r\n` }));
    remaining.push(Number(valuesOf((await connection.read()).rawHeaders, "RateLimit-Remaining")[0]));
  }
  const told = upstream.received.flatMap(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-For"));
  return { remaining, told };
}

test("it shares the quota of its IPv4 address, in any spelling, and no other's", async () => {
  const { remaining, told } = await remainingOf([
    "192.0.2.1",
    "64:ff9b::192.0.2.1",
    "64:FF9B::c000:201",
    "64:ff9b::192.0.2.2",
    "64:ff9b::10.0.0.1",
    "10.0.0.1",
    "64:ff9b::10.0.0.2",
  ]);
  expect(remaining).toEqual([99, 98, 97, 99, 99, 99, 98]);
  expect(told[1]).toBe("64:ff9b::192.0.2.1, 127.0.0.1");
});

test("it is no trusted proxy because its IPv4 address is one", async () => {
  const { remaining } = await remainingOf(["203.0.113.1, 64:ff9b::198.51.100.1", "203.0.113.1"]);
  expect(remaining).toEqual([99, 99]);
});

test("it is exempt only if its address as it stands is", async () => {
  const clients = ["192.0.2.1", "64:ff9b::192.0.2.1", "64:ff9b::192.0.2.1"];
  expect((await remainingOf(clients, ["192.0.2.1"])).remaining).toEqual([100, 99, 98]);
  expect((await remainingOf(clients, ["64:ff9b::/64"])).remaining).toEqual([99, 100, 100]);
});
