// The fair queue against a naive model that walks over everybody, after any order of requests, ends and departures.
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type ClientHolding, ClientShares } from "../../src/upstream/client-shares.ts";
import { FairQueue } from "../../src/upstream/fair-queue.ts";
import { runs, scaled } from "../support/runs.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

interface Asking {
  readonly client: string;
  readonly id: number;
}

const clients = ["a", "b", "c", "d", "e", "f"];
const timeoutMs = 1_000;
const index = fc.nat({ max: 1_000 });
const steps = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant("ask" as const), client: fc.constantFrom("a", ...clients) }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("end" as const), index }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave" as const), index }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.nat({ max: 600 }) }) },
  ),
  // Long enough that few of the trials are needed to see what is counted in the end.
  { minLength: 60, maxLength: 240 },
);

/** What a client holds of `total` places, with the queue for them. */
function pool(total: number) {
  const shares = new ClientShares({ resource: "connections", total, onExceeded: () => {} });
  const served: Asking[] = [];
  const refused: Asking[] = [];
  const held: { asking: Asking; share: ClientHolding }[] = [];
  const queue = new FairQueue<Asking>(
    { maxWaiting: total, timeoutMs, onTimeout: (asking) => void refused.push(asking) },
    shares,
  );
  const serve = (asking: Asking): void => {
    served.push(asking);
    held.push({ asking, share: queue.hold(asking.client) });
  };
  return {
    shares,
    queue,
    served,
    refused,
    held,
    ask(asking: Asking): void {
      if (shares.hasShareLeft(shares.find(asking.client)?.held ?? 0)) {
        serve(asking);
        return;
      }
      const loser = queue.add(asking);
      if (loser !== null) refused.push(loser);
    },
    end(index: number): void {
      const [ended] = held.splice(index % held.length, 1);
      if (ended === undefined) return;
      queue.release(ended.share);
      for (let next = queue.take(); next !== undefined; next = queue.take()) serve(next);
    },
  };
}

/** The same by walks over plain lists. */
class Model {
  readonly total: number;
  readonly waiting: { asking: Asking; untilMs: number }[] = [];
  readonly held: Asking[] = [];
  readonly served: Asking[] = [];
  readonly refused: Asking[] = [];
  /** Of each client that waits: when it was last served, or began to wait. */
  readonly #turns = new Map<string, number>();
  #turn = 0;

  constructor(total: number) {
    this.total = total;
  }

  ask(asking: Asking, nowMs: number): void {
    if (this.#isFreeFor(asking.client)) {
      this.#serve(asking);
      return;
    }
    if (this.waiting.length >= this.total) {
      const most = Math.max(...clients.map((client) => this.waitingOf(client)));
      if (most < this.waitingOf(asking.client) + 2) {
        this.refused.push(asking);
        return;
      }
      // Of several with equally many, whichever the queue chose is right, so the model asks what it refused.
    }
    this.#turns.set(asking.client, this.#turns.get(asking.client) ?? this.#nextTurn());
    this.waiting.push({ asking, untilMs: nowMs + timeoutMs });
  }

  end(index: number): void {
    if (this.held.length === 0) return;
    this.held.splice(index % this.held.length, 1);
    const first = (client: string) => this.waiting.find(({ asking }) => asking.client === client)?.asking;
    for (;;) {
      const [next] = clients
        .filter((client) => this.waitingOf(client) > 0 && this.#isFreeFor(client))
        .sort((a, b) => this.heldBy(a) - this.heldBy(b) || this.#turnOf(a) - this.#turnOf(b));
      const asking = next === undefined ? undefined : first(next);
      if (asking === undefined) return;
      this.#turns.set(asking.client, this.#nextTurn());
      this.leave(asking);
      this.#serve(asking);
    }
  }

  /** At most as many as are free, and of the last quarter only one. */
  #isFreeFor(client: string): boolean {
    const free = this.total - this.held.length;
    const held = this.heldBy(client);
    return held === 0 ? free > 0 : free > held && free > Math.floor(this.total / 4);
  }

  leave(asking: Asking): void {
    const at = this.waiting.findIndex((waiting) => waiting.asking === asking);
    if (at !== -1) this.waiting.splice(at, 1);
    if (this.waitingOf(asking.client) === 0) this.#turns.delete(asking.client);
  }

  refuse(asking: Asking): void {
    this.refused.push(asking);
    this.leave(asking);
  }

  expire(nowMs: number): void {
    for (const { asking, untilMs } of [...this.waiting]) if (untilMs <= nowMs) this.refuse(asking);
  }

  heldBy(client: string): number {
    return this.held.filter((asking) => asking.client === client).length;
  }

  waitingOf(client: string): number {
    return this.waiting.filter(({ asking }) => asking.client === client).length;
  }

  #serve(asking: Asking): void {
    this.served.push(asking);
    this.held.push(asking);
  }

  #nextTurn(): number {
    this.#turn += 1;
    return this.#turn;
  }

  #turnOf(client: string): number {
    return this.#turns.get(client) ?? 0;
  }
}

test("equals a naive queue, after any order of requests, ends, departures and timeouts", () => {
  let refusals = 0;
  let evictions = 0;
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), steps, (total, script) => {
      const real = pool(total);
      const model = new Model(total);
      let nowMs = 0;
      for (const [id, step] of script.entries()) {
        if (step.kind === "ask") {
          const asking = { client: step.client, id };
          const most = Math.max(...clients.map((client) => model.waitingOf(client)));
          model.ask(asking, nowMs);
          const before = real.refused.length;
          real.ask(asking);
          const loser = real.refused[before];
          if (loser !== undefined && loser !== asking) {
            // The newest of one of the clients with the most.
            expect(model.waitingOf(loser.client)).toBe(most);
            expect(model.waiting.findLast(({ asking }) => asking.client === loser.client)?.asking).toBe(loser);
            model.refuse(loser);
            evictions += 1;
          }
        } else if (step.kind === "pass") {
          nowMs += step.ms;
          vi.advanceTimersByTime(step.ms);
          model.expire(nowMs);
        } else if (step.kind === "end" && model.held.length > 0) {
          model.end(step.index);
          real.end(step.index);
        } else if (step.kind === "leave" && model.waiting.length > 0) {
          const { asking } = model.waiting[step.index % model.waiting.length] as { asking: Asking };
          model.leave(asking);
          expect(real.queue.delete(asking)).toBe(true);
          expect(real.queue.delete(asking)).toBe(false);
        }
        expect(real.queue.size).toBe(model.waiting.length);
        for (const client of clients) {
          const share = real.shares.find(client);
          expect(share?.held ?? 0, `held by ${client}`).toBe(model.heldBy(client));
          expect(share?.waiting ?? 0, `waiting of ${client}`).toBe(model.waitingOf(client));
        }
      }
      expect(real.served).toEqual(model.served);
      refusals += real.refused.length;
      // Requests that timed out in the last turn come first. They have not been told yet.
      const left = real.queue.deleteAll();
      const untold = left.slice(0, left.length - model.waiting.length);
      expect(new Set([...real.refused, ...untold])).toEqual(new Set(model.refused));
      expect(real.queue.size).toBe(0);
      while (real.held.length > 0) real.end(0);
      expect(real.shares.size, "nobody is remembered").toBe(0);
      // A callback for requests that have timed out may still be due, and finds none.
      vi.advanceTimersByTime(1);
      expect(vi.getTimerCount()).toBe(0);
    }),
    runs(300),
  );
  expect(refusals, "requests were refused").toBeGreaterThan(scaled(100));
  expect(evictions, "requests made room for others").toBeGreaterThan(scaled(100));
});

test("at most 16 of 100 requests that time out together are told in one turn, and none that has left", () => {
  const told: Asking[] = [];
  const shares = new ClientShares({ resource: "connections", total: 100, onExceeded: () => {} });
  const onTimeout = (asking: Asking): void => void told.push(asking);
  const queue = new FairQueue<Asking>({ maxWaiting: 100, timeoutMs, onTimeout }, shares);
  const all = Array.from({ length: 100 }, (_, id) => ({ client: clients[id % clients.length] as string, id }));
  for (const asking of all) queue.add(asking);
  const immediates: (() => void)[] = [];
  vi.spyOn(globalThis, "setImmediate").mockImplementation((callback) => {
    immediates.push(callback);
    return undefined as unknown as NodeJS.Immediate;
  });
  vi.advanceTimersByTime(timeoutMs);
  expect([told.length, queue.size]).toEqual([0, 0]);
  const [left, ...others] = all;
  expect(queue.delete(left as Asking)).toBe(true);
  const turns: number[] = [];
  for (let next = immediates.shift(); next !== undefined; next = immediates.shift()) {
    const before = told.length;
    next();
    turns.push(told.length - before);
  }
  expect(turns).toEqual([16, 16, 16, 16, 16, 16, 3]);
  expect(told).toEqual(others);
});
