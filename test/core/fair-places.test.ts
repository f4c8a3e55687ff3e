// Places that peers share: who gives up a place for a new connection, against a naive list.
import fc from "fast-check";
import { expect, test } from "vitest";
import { FairPlaces } from "../../src/core/client-share.ts";

const connection = (name: string) => ({ name });

test("a connection beyond the number of places evicts the one that has been idle longest", () => {
  const places = new FairPlaces<object>(3);
  const [a, b, c, d] = ["a", "b", "c", "d"].map(connection) as [object, object, object, object];
  expect([places.take(a, "1"), places.take(b, "2"), places.take(c, "3")]).toEqual([null, null, null]);
  places.setBusy(a, true);
  places.setBusy(a, false);
  expect(places.take(d, "4")).toBe(b);
  expect([...places.connections()]).toEqual([a, c, d]);
});

test("a peer that holds as many places as are free gives up its own for a new one; others keep theirs", () => {
  const places = new FairPlaces<object>(4);
  const victim = connection("idle");
  places.take(victim, "good");
  const greedy = Array.from({ length: 20 }, (_, i) => connection(`${i}`));
  const evicted = greedy.map((one) => {
    const other = places.take(one, "greedy");
    places.setBusy(one, true);
    return other;
  });
  expect(evicted).toEqual([null, null, ...greedy.slice(0, 18)]);
  expect([places.take(connection("new"), "other"), places.count]).toEqual([null, 4]);
  expect(places.take(connection("newer"), "another"), "of the one with the most").toBe(greedy[18]);
  expect(places.has(victim)).toBe(true);
});

test("a new connection gets a place even if all others are busy and each is of another peer", () => {
  const places = new FairPlaces<object>(2);
  const [a, b, c] = ["a", "b", "c"].map(connection) as [object, object, object];
  for (const one of [b, a]) {
    places.take(one, String(one === a));
    places.setBusy(one, true);
  }
  expect(places.take(c, "c")).toBe(b);
});

test("a connection that has left is not evicted, and its place is free", () => {
  const places = new FairPlaces<object>(1);
  const [a, b] = ["a", "b"].map(connection) as [object, object];
  places.take(a, "1");
  expect([places.leave(a), places.leave(a)]).toEqual([true, false]);
  places.setBusy(a, true);
  expect([places.take(b, "1"), places.count]).toEqual([null, 1]);
});

test("a peer that must not evict itself gets a free place, or, if it has none, one of the peer with the most", () => {
  const places = new FairPlaces<object>(4);
  const all = Array.from({ length: 4 }, (_, i) => connection(`${i}`));
  const evicted: object[] = [];
  const takes = (one: object | undefined, peer: string) =>
    places.takeFromOthers(one ?? {}, peer, (other) => void evicted.push(other));
  expect(all.map((one) => takes(one, "a"))).toEqual([true, true, false, false]);
  expect([takes({}, "b"), takes({}, "b"), takes({}, "c")]).toEqual([true, false, true]);
  expect([places.count, evicted]).toEqual([4, []]);
  expect(takes({}, "d")).toBe(true);
  expect(evicted).toEqual([all[0]]);
  expect([takes({}, "b"), takes({}, "a"), places.count]).toEqual([false, false, 4]);
});

test("equals a naive list of connections", () => {
  const steps = fc.array(
    fc.record({ kind: fc.constantFrom("take", "busy", "idle", "leave"), peer: fc.nat(3), pick: fc.nat(20) }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), steps, (max, all) => {
      const places = new FairPlaces<object>(max);
      // In the order of the last change.
      let list: { connection: object; peer: string; isBusy: boolean }[] = [];
      const shareOf = (peer: string) => list.filter((entry) => entry.peer === peer).length;
      for (const { kind, peer: number, pick } of all) {
        const peer = `${number}`;
        const picked = list[pick % Math.max(list.length, 1)];
        if (kind === "take") {
          const connection = {};
          let expected: object | null = null;
          const [held, free] = [shareOf(peer), max - list.length];
          if (held === 0 ? free === 0 : free <= held || free <= Math.floor(max / 4)) {
            const most = Math.max(...list.map((entry) => shareOf(entry.peer)));
            const candidates = list.filter((entry) =>
              held === 0 ? shareOf(entry.peer) === most : entry.peer === peer,
            );
            const next = candidates.find(({ isBusy }) => !isBusy) ?? candidates[0];
            expected = next?.connection ?? null;
            list = list.filter((entry) => entry !== next);
          }
          expect(places.take(connection, peer)).toBe(expected);
          list.push({ connection, peer, isBusy: false });
        } else if (picked !== undefined && kind === "leave") {
          places.leave(picked.connection);
          list = list.filter((entry) => entry !== picked);
        } else if (picked !== undefined) {
          places.setBusy(picked.connection, kind === "busy");
          if (picked.isBusy !== (kind === "busy")) {
            list = [...list.filter((entry) => entry !== picked), { ...picked, isBusy: kind === "busy" }];
          }
        }
        expect(places.count).toBe(list.length);
      }
    }),
  );
});
