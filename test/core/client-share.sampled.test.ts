// What clients get of a shared resource when each takes all that it may and lets nothing go.
import fc from "fast-check";
import { expect, test } from "vitest";
import { clientShare } from "../../src/core/client-share.ts";
import { spread } from "../support/runs.ts";

const totals = fc.integer({ min: 1, max: 4096 });

class Pool {
  readonly total: number;
  /** By each client. */
  readonly held: number[];
  free: number;

  constructor(total: number, clients: number) {
    this.total = total;
    this.held = Array<number>(clients).fill(0);
    this.free = total;
  }

  take(client: number): boolean {
    const held = this.held[client] ?? 0;
    if (held >= clientShare(this.free, this.total)) return false;
    this.held[client] = held + 1;
    this.free -= 1;
    return true;
  }

  release(client: number): void {
    const held = this.held[client] ?? 0;
    this.held[client] = Math.max(0, held - 1);
    this.free += held - Math.max(0, held - 1);
  }

  /** One client after the other takes all that it may. */
  takeInOrder(): this {
    for (const client of this.held.keys()) while (this.take(client));
    return this;
  }

  /** All take one after the other, until none gets one more. */
  takeTogether(): this {
    while ([...this.held.keys()].map((client) => this.take(client)).includes(true));
    return this;
  }
}

test.each([
  { clients: 1, together: [128, 128], inOrder: [128], free: 128 },
  { clients: 2, together: [85, 86], inOrder: [128, 64], free: 64 },
  { clients: 3, together: [64, 64], inOrder: [128, 64, 1], free: 63 },
  { clients: 10, together: [19, 20], inOrder: [128, 64, ...Array<number>(8).fill(1)], free: 56 },
  { clients: 65, together: [2, 3], inOrder: [128, 64, ...Array<number>(63).fill(1)], free: 1 },
  { clients: 66, together: [2, 3], inOrder: [128, 64, ...Array<number>(64).fill(1)], free: 0 },
])("$clients of 256 get as much as docs/threat-model.md says", ({ clients, together, inOrder, free }) => {
  const { held } = new Pool(256, clients).takeTogether();
  expect([Math.min(...held), Math.max(...held)]).toEqual(together);
  const pool = new Pool(256, clients).takeInOrder();
  expect([pool.held, pool.free]).toEqual([inOrder, free]);
});

test.each([
  { total: 256, clients: 66 },
  { total: 64, clients: 18 },
  { total: 4096, clients: 1026 },
])(
  "of $total, $clients clients can take all, and one less cannot, as docs/threat-model.md says",
  ({ total, clients }) => {
    expect([clients - 1, clients].map((each) => new Pool(total, each).takeInOrder().free)).toEqual([1, 0]);
  },
);

test.each([
  [1, [1]],
  [2, [1, 1]],
  [3, [2, 1]],
  [4, [2, 1, 1]],
  [5, [3, 1, 1]],
  [6, [3, 2, 1]],
  [8, [4, 2, 1, 1]],
])("of %i places, clients that come one after the other get %j, and the next one none", (total, expected) => {
  const { held } = new Pool(total, expected.length + 1).takeInOrder();
  expect(held).toEqual([...expected, 0]);
});

test("a client alone gets a half, three at the same time a quarter each, whatever the total", () => {
  const all = Array.from({ length: 4096 }, (_, i) => i + 1);
  for (const total of spread(all, 5)) {
    expect(new Pool(total, 1).takeInOrder().held).toEqual([Math.ceil(total / 2)]);
    if (total % 4 === 0) expect(new Pool(total, 3).takeTogether().held).toEqual(Array(3).fill(total / 4));
  }
});

test("clients that come at the same time get equal parts, and each gets one", () => {
  fc.assert(
    fc.property(totals, fc.nat(), (total, pick) => {
      const clients = 1 + (pick % total);
      const { held, free } = new Pool(total, clients).takeTogether();
      expect(Math.min(...held)).toBeGreaterThanOrEqual(1);
      expect(Math.max(...held) - Math.min(...held)).toBeLessThanOrEqual(1);
      expect(free).toBe(total - held.reduce((sum, each) => sum + each));
    }),
  );
});

test("a quarter as many clients as there are places, and one more, leave a place for the next one, in whatever order they take and release", () => {
  const steps = fc.array(fc.record({ client: fc.nat(), places: fc.integer({ min: -2048, max: 2048 }) }), {
    maxLength: 200,
  });
  fc.assert(
    fc.property(fc.integer({ min: 4, max: 4096 }), fc.nat(2), steps, (total, fewer, all) => {
      const clients = Math.max(1, Math.floor(total / 4) + 1 - fewer);
      const pool = new Pool(total, clients);
      for (const { client, places } of all) {
        for (let i = 0; i < -places; i += 1) pool.release(client % clients);
        for (let i = 0; i < places && pool.take(client % clients); i += 1);
        expect(pool.free).toBeGreaterThanOrEqual(1);
      }
      expect(pool.takeTogether().free).toBeGreaterThanOrEqual(1);
    }),
  );
});
