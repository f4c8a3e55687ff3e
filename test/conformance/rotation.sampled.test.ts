// A client that owns a /64 owns 2^64 addresses and one quota: it may change its address with every request and is
// admitted as often as if it had not. Through the pipeline, without sockets.
import { expect, test } from "vitest";
import { createAuthenticator } from "../../src/auth/authenticator.ts";
import { type ClientAddressRules, readPeer } from "../../src/core/client-address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { createDecide } from "../../src/pipeline.ts";
import { LimitedTable } from "../limits/one-limit.ts";
import { slidingPolicy } from "../support/policy.ts";
import { requestRules } from "../support/request-rules.ts";
import { scaled } from "../support/runs.ts";

const limit = 100;
/** 200,000 in `npm run test:long`. */
const rotations = scaled(1_000_000, 200);

function pipeline(header: ClientAddressRules["header"]) {
  const clientAddress = { header, trustedProxies: new NetworkSet([parseCidr("10.0.0.1") ?? never()]), ipv6Prefix: 64 };
  const store = new PolicyLimiter([slidingPolicy({ limit, windowMs: 60_000 })]);
  const rules = requestRules({ clientAddress });
  const decide = createDecide({
    rules,
    runtimeRules: new RulesInForce(),
    limiter: store,
    authenticator: createAuthenticator(null, systemClock),
    demandOf: () => ({ mode: "off", scopes: [] }),
    refusals: null,
    nowMs: () => 1000,
  });
  /** Whether a request with this peer and these fields is admitted. */
  return (peer: string, fields: readonly string[]): boolean => {
    const head = { peer: readPeer(peer, clientAddress), rawHeaders: ["Host", "a", ...fields], method: "GET" };
    const verdict = decide({ ...head, target: "/v2/x", httpVersion: "1.1" }, 1000);
    if (verdict instanceof Promise) throw new Error("the pipeline answered with a promise");
    return verdict.decision.outcome === "admitted";
  };
}

function never(): never {
  throw new Error("the test wrote no network");
}

/** A different one for each i below 2^20 its low half spread over all of the /64. */
function addressIn(network: string, i: number): string {
  const spread = Math.imul(i, 0x9e3779b1) >>> 0;
  const hex = (number: number): string => (number & 0xffff).toString(16);
  return `${network}:${hex(spread >>> 16)}:${hex(spread)}:${hex(i >>> 16)}:${hex(i)}`;
}

test(`${rotations} addresses of one /64 are admitted as often as one address, and the next /64 has its own quota`, () => {
  const isAdmitted = pipeline("x-forwarded-for");
  const seen = new Set<string>();
  let admitted = 0;
  for (let i = 0; i < rotations; i += 1) {
    const address = addressIn("2001:db8:1:2", i);
    seen.add(address);
    if (isAdmitted(address, [])) admitted += 1;
  }
  expect(seen.size).toBe(rotations);
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
