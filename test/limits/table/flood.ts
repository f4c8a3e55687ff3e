// Floods of clients and of tokens through a limiter, as they come from `ParsedRequest`: each with a key of its own.

import { addressKey, CounterKey } from "../../../src/core/counter-key.ts";
import type { Decision, Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { decided } from "../../support/decided.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";

export type Flood = (i: number) => CounterKey;

/** Spread over the whole address space, so that no network holds more than its share. */
export const ipv4Flood: Flood = (i) => new CounterKey(0, 0, 0xffff, Math.imul(i + 1, 0x9e3779b1), true);
export const ipv6Flood: Flood = (i) =>
  addressKey([0x2a00, (i >>> 16) ^ 0x55, Math.imul(i, 0x9e37) & 0xffff, i & 0xffff, 0, 0, 0, 1], 64);

export class FloodedLimiter {
  readonly table: CounterTable;
  readonly limiter: PolicyLimiter;
  nowMs = 1_000_000;
  readonly #asked = limitedRequest();

  constructor(policies: readonly Policy[], bytes: number, secret: Uint8Array) {
    this.table = new CounterTable(createTableMemory(bytes), { secret });
    this.limiter = new PolicyLimiter(policies, { table: this.table });
  }

  take(counterKey: CounterKey): Decision {
    const { request, head } = this.#asked;
    return decided(this.limiter.ask(askedRequest({ ...request, counterKey }, head, this.nowMs), "anonymous"));
  }

  /** With a token, for policies by token. */
  takeToken(token: string): Decision {
    const { request, head } = this.#asked;
    const rawHeaders = ["authorization", `Bearer ${token}`];
    return decided(this.limiter.ask(askedRequest(request, { ...head, rawHeaders }, this.nowMs), "anonymous"));
  }
}

/** Returns the median of nanoseconds of processor time for one call, of batches. */
export function medianNs(batches: number, calls: number, run: (i: number) => void): number {
  const took = Array.from({ length: batches }, (_, batch) => {
    const before = process.cpuUsage();
    for (let i = 0; i < calls; i += 1) run(batch * calls + i);
    const { user, system } = process.cpuUsage(before);
    return ((user + system) * 1000) / calls;
  });
  return took.toSorted((a, b) => a - b)[batches >> 1] ?? 0;
}
