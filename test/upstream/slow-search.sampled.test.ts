// Whose transfer gives way to a client that waits: the search for it is short however much a client holds, and finds it in
// the end.
import fc from "fast-check";
import { expect, test } from "vitest";
import { SharedPlaces } from "../../src/upstream/client-places.ts";
import { type ClientHolding, ClientShares, type Reclaimable } from "../../src/upstream/client-shares.ts";
import { eventually } from "../support/eventually.ts";
import { runs, scaled } from "../support/runs.ts";

class Place implements Reclaimable {
  looks = 0;
  isReclaimed = false;
  slow = 0;
  release = (): void => {};

  slowness(): number {
    this.looks += 1;
    return this.slow;
  }

  onShareExceeded(): void {
    this.isReclaimed = true;
    this.release();
  }
}

function holding(counts: Record<string, number>, total = 400) {
  const exceeded: string[] = [];
  const onExceeded = (_resource: string, client: string): void => void exceeded.push(client);
  const shares = new ClientShares({ resource: "tunnels", total, onExceeded });
  const places = new Map<string, Place[]>();
  for (const [client, count] of Object.entries(counts)) {
    const own = Array.from({ length: count }, () => new Place());
    for (const place of own) {
      const share = shares.hold(client);
      place.release = () => shares.release(share);
      shares.addReclaimable(share, place);
    }
    places.set(client, own);
  }
  return { shares, exceeded, of: (client: string) => places.get(client) as Place[] };
}

test("one search looks at 64 of 300 places at most, and the fifth search finds the slow one", () => {
  const { shares, of } = holding({ a: 300 });
  const slow = of("a")[299] as Place;
  slow.slow = 0.5;
  const looks = (): number => of("a").reduce((sum, place) => sum + place.looks, 0);
  for (let search = 1; search <= 5; search += 1) {
    expect(shares.reclaim(false)).toBe(search === 5);
    expect(looks()).toBe(64 * search);
  }
  expect(slow.isReclaimed).toBe(true);
});

test("the client that holds most loses first, each down to the equal share, and never one that holds no more", () => {
  const { shares, exceeded, of } = holding({ a: 101, b: 103, c: 100 });
  expect(shares.equalShare, "of 400, for three clients and whoever comes").toBe(100);
  expect(shares.reclaim(true), "none is slow").toBe(false);
  for (const place of ["a", "b", "c"].flatMap(of)) place.slow = 0.5;
  for (let i = 0; i < 4; i += 1) expect(shares.reclaim(false)).toBe(true);
  expect(shares.reclaim(false), "nobody holds more than the equal share").toBe(false);
  expect(exceeded.slice(0, 2)).toEqual(["b", "b"]);
  const reclaimed = ["a", "b", "c"].map((client) => of(client).filter(({ isReclaimed }) => isReclaimed).length);
  expect(reclaimed).toEqual([1, 3, 0]);
});

test("the slowest of a client goes, not the oldest", () => {
  const { shares, of } = holding({ a: 3, b: 1 }, 4);
  for (const [i, slow] of [0.9, 0.99, 0.98].entries()) (of("a")[i] as Place).slow = slow;
  (of("b")[0] as Place).slow = 1;
  expect(shares.reclaim(true)).toBe(true);
  expect(of("a").map(({ isReclaimed }) => isReclaimed)).toEqual([false, true, false]);
  expect(of("b")[0]?.isReclaimed, "he holds an equal share").toBe(false);
});

test("of clients with one each, the slowest of all gives way, and only to a request that is urgent", () => {
  const { shares, exceeded, of } = holding({ a: 1, b: 1, c: 1, d: 1 }, 4);
  for (const [client, slow] of Object.entries({ a: 0.97, b: 0.99, c: 0.98 })) (of(client)[0] as Place).slow = slow;
  expect(shares.reclaim(false)).toBe(false);
  expect(shares.reclaim(true)).toBe(true);
  expect(exceeded).toEqual(["b"]);
});

test("clients with one each lose nothing while fewer than a quarter of all are slow", () => {
  const { shares, of } = holding(Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`${i}`, 1])), 16);
  const places = Array.from({ length: 16 }, (_, i) => of(`${i}`)[0] as Place);
  for (const place of places.slice(0, 3)) place.slow = 1;
  expect(shares.reclaim(true)).toBe(false);
  (places[3] as Place).slow = 0.1;
  expect(shares.reclaim(true)).toBe(true);
});

interface Drawn {
  readonly client: string;
  readonly slow: number;
}

/** Whose thing goes, by walks over plain lists. */
function modelOf(drawn: readonly Drawn[], total: number, isUrgent: boolean): Drawn[] {
  const heldBy = (client: string): number => drawn.filter((each) => each.client === client).length;
  const clients = new Set(drawn.map(({ client }) => client));
  const equalShare = Math.max(1, Math.floor(total / (clients.size + 1)));
  const slow = drawn.filter((each) => each.slow > 0);
  const over = slow.filter(({ client }) => heldBy(client) > equalShare);
  const may = over.length > 0 ? over : isUrgent && slow.length >= total / 4 ? slow : [];
  const most = Math.max(...may.map(({ client }) => heldBy(client)));
  const ofGreediest = may.filter(({ client }) => heldBy(client) === most);
  // Of two clients over their share that hold equally many, either may lose its slowest.
  const rivals = (each: Drawn): Drawn[] =>
    over.length > 0 ? ofGreediest.filter(({ client }) => client === each.client) : ofGreediest;
  return ofGreediest.filter((each) => rivals(each).every(({ slow }) => slow <= each.slow));
}

test("equals a naive search: the slowest of the client with the most, and never one that is not slow", () => {
  let taken = 0;
  let left = 0;
  const drawn = fc.record({
    client: fc.constantFrom("a", "a", "a", "b", "b", "c", "d", "e", "f", "g", "h"),
    slow: fc.constantFrom(0, 0, 0.5, 0.9, 0.95, 0.99, 1),
  });
  fc.assert(
    fc.property(fc.array(drawn, { maxLength: 16 }), fc.nat({ max: 4 }), fc.boolean(), (all, free, isUrgent) => {
      const total = all.length + free;
      const exceeded: string[] = [];
      const onExceeded = (_resource: string, client: string): void => void exceeded.push(client);
      const shares = new ClientShares({ resource: "connections", total, onExceeded });
      const places = all.map(({ client, slow }) => {
        const place = new Place();
        place.slow = slow;
        shares.addReclaimable(shares.hold(client), place);
        return place;
      });
      const expected = modelOf(all, total, isUrgent);
      const isTaken = shares.reclaim(isUrgent);
      expect(isTaken).toBe(expected.length > 0);
      const lost = all.filter((_, i) => places[i]?.isReclaimed);
      expect(lost).toHaveLength(isTaken ? 1 : 0);
      expect(exceeded).toEqual(lost.map(({ client }) => client));
      for (const each of lost) expect(expected).toContainEqual(each);
      if (isTaken) taken += 1;
      else left += 1;
    }),
    runs(1_000),
  );
  expect(taken).toBeGreaterThan(scaled(200));
  expect(left).toBeGreaterThan(scaled(100));
});

test("one turn of the event loop makes one search, also while thousands wait and much can be taken back", async () => {
  const clients = 200;
  let looks = 0;
  let taken = 0;
  class Waiter implements Reclaimable {
    readonly client: string;
    share: ClientHolding | null = null;

    constructor(client: string) {
      this.client = client;
    }

    slowness(): number {
      looks += 1;
      return 1;
    }

    onShareExceeded(): void {
      taken += 1;
      if (this.share !== null) places.release(this.share, this);
      serve();
    }
  }
  const options = { total: 2 * clients, timeoutMs: 60_000, onRefused: () => {}, onShareExceeded: () => {} };
  const places = new SharedPlaces<Waiter>(options);
  const give = (waiter: Waiter): void => {
    waiter.share = places.hold(waiter.client);
    places.mayReclaim(waiter.share, waiter);
  };
  const serve = (): void => {
    const next = places.next();
    if (next !== undefined) give(next);
  };
  for (let i = 0; i < 2 * clients; i += 1) give(new Waiter(`held ${i % clients}`));
  for (let i = 0; i < clients; i += 1) places.wait(new Waiter(`waits ${i}`));
  expect(taken).toBe(1);
  const looksOfOne = looks;
  await eventually("all are served", () => places.waiting === 0);
  expect([taken, looks], "each in a turn of its own").toEqual([clients, clients * looksOfOne]);
  places.close();
});
