// A bounded store must forget somebody. A model that looks at everyone each time says who it may be.
import fc from "fast-check";
import { expect, test } from "vitest";
import { runs, scaled } from "../support/runs.ts";
import { LimitedTable, type WindowLimit } from "./one-limit.ts";

/** Whom the store remembers, by the instants of what is stored of them; kept in step by watching what it forgets. */
class EvictionModel {
  readonly policy: WindowLimit;
  readonly admittedAtMs = new Map<string, number[]>();
  evictedExpired = 0;
  evictedLive = 0;

  constructor(policy: WindowLimit) {
    this.policy = policy;
  }

  counted(client: string, nowMs: number): number {
    return (this.admittedAtMs.get(client) ?? []).filter((atMs) => nowMs < atMs + this.policy.windowMs).length;
  }

  /** What taking must do, and who is forgotten for it. */
  take(client: string, nowMs: number): boolean {
    if (!this.admittedAtMs.has(client)) this.#makeRoom(nowMs);
    if (this.counted(client, nowMs) >= this.policy.limit) return false;
    this.admittedAtMs.set(client, [...(this.admittedAtMs.get(client) ?? []), nowMs]);
    return true;
  }

  /**
   * Up to two that have expired; a live one only if it is still full: not exhausted before exhausted, soonest first.
   */
  #makeRoom(nowMs: number): void {
    for (let i = 0; i < 2; i += 1) {
      const expired = [...this.admittedAtMs.keys()].filter((client) => this.counted(client, nowMs) === 0);
      const first = this.#soonest(expired, (times) => times.at(-1) ?? 0);
      if (first === undefined) break;
      this.admittedAtMs.delete(first);
      this.evictedExpired += 1;
    }
    if (this.admittedAtMs.size < this.policy.maxClients) return;
    const live = [...this.admittedAtMs.keys()];
    const open = live.filter((client) => this.counted(client, nowMs) < this.policy.limit);
    const victim =
      this.#soonest(open, (times) => times.at(-1) ?? 0) ??
      this.#soonest(live, (times) => times.at(-this.policy.limit) ?? 0);
    if (victim === undefined) return;
    this.admittedAtMs.delete(victim);
    this.evictedLive += 1;
  }

  #soonest(clients: string[], instantOf: (times: number[]) => number): string | undefined {
    const at = (client: string) => instantOf(this.admittedAtMs.get(client) ?? []);
    return clients.toSorted((a, b) => at(a) - at(b))[0];
  }
}

const scripts = fc.record({
  limit: fc.integer({ min: 1, max: 4 }),
  maxClients: fc.integer({ min: 1, max: 6 }),
  // No two admissions at one instant, so that there is one right answer to who is first.
  takes: fc.array(
    fc.record({
      client: fc.constantFrom(..."abcdefghij"),
      gapMs: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 120 })),
    }),
    { maxLength: 150, size: "max" },
  ),
});

test("forgets whom the model forgets: the expired, then the idlest, the exhausted last, and never exceeds its bound", () => {
  let liveEvictions = 0;
  fc.assert(
    fc.property(scripts, ({ limit, maxClients, takes }) => {
      const policy = { limit, windowMs: 100, maxClients };
      const store = new LimitedTable(policy);
      const model = new EvictionModel(policy);
      let nowMs = 0;
      for (const { client, gapMs } of takes) {
        nowMs += gapMs;
        expect(store.acquire(client, nowMs).outcome).toBe(model.take(client, nowMs) ? "admitted" : "throttled");
        const { evictedExpired, evictedLive } = model;
        expect(store.stats()).toEqual({
          clients: model.admittedAtMs.size,
          capacity: maxClients,
          evictedExpired,
          evictedLive,
        });
        expect(model.admittedAtMs.size).toBeLessThanOrEqual(maxClients);
        for (const one of "abcdefghij") {
          const { remaining } = store.peek(one, nowMs);
          if (remaining !== limit - model.counted(one, nowMs)) throw new Error(`${one} at ${nowMs}: ${remaining} left`);
        }
      }
      liveEvictions += model.evictedLive;
    }),
    runs(1000),
  );
  expect(liveEvictions).toBeGreaterThan(scaled(1000));
});

test("an exhausted client is forgotten only when every remembered client is exhausted", () => {
  fc.assert(
    fc.property(scripts, ({ limit, maxClients, takes }) => {
      const store = new LimitedTable({ limit, windowMs: 100, maxClients });
      let nowMs = 0;
      const left = (client: string) => store.peek(client, nowMs).remaining;
      for (const { client, gapMs } of takes) {
        nowMs += gapMs;
        const exhausted = [..."abcdefghij"].filter((one) => left(one) === 0);
        const open = [..."abcdefghij"].filter((one) => left(one) > 0 && left(one) < limit);
        store.acquire(client, nowMs);
        const forgotten = exhausted.filter((one) => left(one) > 0);
        if (forgotten.length > 0) expect(open).toEqual([]);
      }
    }),
    runs(1000),
  );
});
