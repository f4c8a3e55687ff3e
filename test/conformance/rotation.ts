// Clients that own a whole network and change their address with every request, through the pipeline and without
// sockets.

import { createAuthenticator } from "../../src/auth/authenticator.ts";
import { type ClientAddressRules, readPeer } from "../../src/core/client-address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { createDecide } from "../../src/pipeline.ts";
import { slidingPolicy } from "../support/policy.ts";
import { requestRules } from "../support/request-rules.ts";

export const limit = 100;

export function pipeline(header: ClientAddressRules["header"]) {
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
export function addressIn(network: string, i: number): string {
  const spread = Math.imul(i, 0x9e3779b1) >>> 0;
  const hex = (number: number): string => (number & 0xffff).toString(16);
  return `${network}:${hex(spread >>> 16)}:${hex(spread)}:${hex(i >>> 16)}:${hex(i)}`;
}
