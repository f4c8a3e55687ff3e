// A client that owns a /64 owns 2^64 addresses and one quota: it may change its address with every request and is
// admitted as often as if it had not. The million of them is in rotation.long.ts.
import { expect, test } from "vitest";
import { type ClientAddressRules, readPeer } from "../../src/core/client-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { LimitedTable } from "../limits/one-limit.ts";
import { scaled } from "../support/runs.ts";
import { addressIn, limit, pipeline } from "./rotation.ts";

const rotations = scaled(100_000);

test(`${rotations} addresses of one /64 are admitted as often as one address, and the next /64 has its own quota`, () => {
  const isAdmitted = pipeline("x-forwarded-for");
  let admitted = 0;
  for (let i = 0; i < rotations; i += 1) if (isAdmitted(addressIn("2001:db8:1:2", i), [])) admitted += 1;
  expect(admitted).toBe(limit);
  expect(isAdmitted(addressIn("2001:db8:1:3", 0), [])).toBe(true);
});

test.each([
  ["x-forwarded-for", "X-Forwarded-For", (address: string) => `6.6.6.6, [${address}]:4711`],
  ["forwarded", "Forwarded", (address: string) => `for=6.6.6.6, for="[${address}]:4711"`],
] as const)("nor more often behind a proxy that names them in %s", (header, name, write) => {
  const isAdmitted = pipeline(header);
  let admitted = 0;
  for (let i = 0; i < rotations; i += 1) {
    if (isAdmitted("10.0.0.1", [name, write(addressIn("2001:db8:1:2", i))])) admitted += 1;
  }
  expect(admitted).toBe(limit);
});

test("without the grouping every one of them would be admitted, so the addresses do differ", () => {
  const store = new LimitedTable({ limit, windowMs: 60_000 });
  const rules: ClientAddressRules = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 128 };
  const admitted = Array.from({ length: 1000 }, (_, i) => readPeer(addressIn("2001:db8:1:2", i), rules).key).filter(
    (key) => store.acquire(key, 1000).outcome === "admitted",
  );
  expect(admitted).toHaveLength(1000);
});
