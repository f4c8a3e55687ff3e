import { describe, expect, test } from "vitest";
import { ConnectionTable, LocalConnectionCount } from "../../src/listener/connection-table.ts";
import { FakeConnection } from "../support/fake-connection.ts";
import { seededRandom } from "../support/random.ts";

function setUp(count: number, idleTimeoutMs?: number) {
  const clock = { nowMs: 0 };
  const settings = { current: { streams: { max: 100, maxPerPeer: 100 } } };
  const table = new ConnectionTable(
    settings,
    new LocalConnectionCount(),
    () => clock.nowMs,
    () => {},
  );
  const connections = Array.from({ length: count }, () => new FakeConnection(idleTimeoutMs));
  for (const connection of connections) table.add(connection);
  const at = (i: number): FakeConnection => connections[i] as FakeConnection;
  const request = (i: number): void => {
    at(i).place?.begin();
    at(i).place?.end();
  };
  return { clock, table, connections, at, request };
}

describe("the connection that has been idle longest", () => {
  test("is the first whose last request is over, busy ones left out, each once", () => {
    const { table, at, request } = setUp(5);
    request(1);
    at(2).place?.begin();
    request(0);
    at(3).place?.leave();
    expect(table.idleCount).toBe(3);
    expect([table.takeIdle(), table.takeIdle(), table.takeIdle(), table.takeIdle()]).toEqual([
      ...[at(4), at(1), at(0)],
      undefined,
    ]);
    at(4).place?.end();
    expect(table.takeIdle()).toBe(at(4));
  });

  test("equals that of a naive list, whatever happens", () => {
    const { table, connections } = setUp(8);
    const idle = [...connections];
    const remove = (one: FakeConnection): void => {
      if (idle.includes(one)) idle.splice(idle.indexOf(one), 1);
    };
    for (let step = 0; step < 20_000; step += 1) {
      const one = connections[(step * 7919) % connections.length] as FakeConnection;
      const act = (step * 104_729) % 5;
      if (act === 4) {
        expect(table.takeIdle()).toBe(idle.shift());
      } else {
        remove(one);
        if (act > 1) idle.push(one);
        if (act > 1) one.place?.end();
        else one.place?.begin();
      }
      expect(table.idleCount).toBe(idle.length);
    }
  });

  test("is not one whose socket is closed", () => {
    const { table, at } = setUp(1);
    at(0).place?.begin();
    at(0).socket.destroy();
    at(0).place?.end();
    expect(table.takeIdle()).toBeUndefined();
  });
});

test("a sweep closes what was idle for its time, has what was idle for 5 s forget its head, and asks the busy ones", async () => {
  const { clock, table, at, request } = setUp(4, 10_000);
  clock.nowMs = 4_000;
  request(1);
  at(2).place?.begin();
  clock.nowMs = 6_000;
  request(3);
  clock.nowMs = 10_000;
  await table.sweep();
  expect([0, 1, 2, 3].map((i) => at(i).events)).toEqual([["closed"], ["forgets"], ["asked at 10000"], []]);
  clock.nowMs = 10_999;
  await table.sweep();
  expect(at(3).events).toEqual([]);
});

test("after any begins, ends and closes, a peer alone has a half of the connections busy, and its others stay idle", () => {
  const { table } = setUp(0);
  const random = seededRandom(7);
  const open = new Set<FakeConnection>();
  for (let step = 0; step < 100_000; step += 1) {
    const [one = new FakeConnection(60_000, `127.0.0.${1 + Math.floor(random() * 8)}`)] =
      random() < 0.1 ? [] : [...open].slice(Math.floor(random() * open.size));
    const act = random();
    if (!open.has(one)) {
      if (open.size < 100) table.add(one);
      if (open.size < 100) open.add(one);
    } else if (act < 0.5) one.place?.begin();
    else if (act < 0.8) one.place?.end();
    else if (act < 0.9) table.takeIdle();
    else {
      one.place?.leave();
      open.delete(one);
    }
  }
  for (const one of open) one.place?.leave();
  expect(table.idleCount).toBe(0);
  const own = Array.from({ length: 100 }, () => new FakeConnection());
  for (const one of own) table.add(one);
  expect(own.filter((one) => one.place?.begin())).toHaveLength(50);
  expect(table.idleCount).toBe(50);
  const other = new FakeConnection(60_000, "127.0.0.2");
  table.add(other);
  expect(other.place?.begin()).toBe(true);
});
