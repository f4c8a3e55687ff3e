// What is taken back from a client that holds much: the search for it is short however much the client holds, and finds it
// in the end.
import { expect, test } from "vitest";
import { type ClientShare, ClientShares, type Reclaimable, SharedPlaces } from "../../src/upstream/client-places.ts";
import { eventually } from "../support/eventually.ts";

class Place implements Reclaimable {
  looks = 0;
  isReclaimed = false;
  ms = 0;
  release = (): void => {};

  idleMs(): number {
    this.looks += 1;
    return this.ms;
  }

  onShareExceeded(): void {
    this.isReclaimed = true;
    this.release();
  }
}

function holding(counts: Record<string, number>) {
  const exceeded: string[] = [];
  const onExceeded = (_resource: string, client: string): void => void exceeded.push(client);
  const shares = new ClientShares({ resource: "tunnels", total: 400, onExceeded });
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

test("one search looks at 64 of 300 places at most, and the fifth search finds the idle one", () => {
  const { shares, of } = holding({ a: 300 });
  const idle = of("a")[299] as Place;
  idle.ms = 1_000;
  const looks = (): number => of("a").reduce((sum, place) => sum + place.looks, 0);
  for (let search = 1; search <= 5; search += 1) {
    expect(shares.reclaim(1)).toBe(search === 5);
    expect(looks()).toBe(64 * search);
  }
  expect(idle.isReclaimed).toBe(true);
});

test("the client that holds most loses first, each down to the equal share, and never one that holds no more", () => {
  const { shares, exceeded, of } = holding({ a: 101, b: 103, c: 100 });
  expect(shares.equalShare, "of 400, for three clients and whoever comes").toBe(100);
  for (const place of ["a", "b", "c"].flatMap(of)) place.ms = 1_000;
  expect(shares.reclaim(1_001)).toBe(false);
  for (let i = 0; i < 4; i += 1) expect(shares.reclaim(1_000)).toBe(true);
  expect(shares.reclaim(1_000), "nobody holds more than the equal share").toBe(false);
  expect(exceeded.slice(0, 2)).toEqual(["b", "b"]);
  const reclaimed = ["a", "b", "c"].map((client) => of(client).filter(({ isReclaimed }) => isReclaimed).length);
  expect(reclaimed).toEqual([1, 3, 0]);
});

test("one turn of the event loop makes one search, also while thousands wait and much can be taken back", async () => {
  const clients = 200;
  let looks = 0;
  let taken = 0;
  class Waiter implements Reclaimable {
    readonly client: string;
    share: ClientShare | null = null;

    constructor(client: string) {
      this.client = client;
    }

    idleMs(): number {
      looks += 1;
      return 1_000;
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
