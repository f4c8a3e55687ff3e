// The bound on connections over several threads, without a network: who is refused, and what makes room for whom.
import { expect, test } from "vitest";
import type { TrafficSettings } from "../../src/core/settings.ts";
import { requestBounds } from "../../src/http1/request-head.ts";
import { ConnectionLimiter, LocalPeerConnections } from "../../src/listener/connection-limiter.ts";
import { ConnectionTable, SharedConnectionCount } from "../../src/listener/connection-table.ts";
import { FakeConnection, fakeRules } from "../support/fake-connection.ts";
import { seededRandom } from "../support/random.ts";
import { scaled } from "../support/runs.ts";

const limits = { maxConnectionsPerPeer: 1_000, newConnectionsPerPeer: 1_000, maxRequestsPerConnection: 1_000 };

/** Threads that share one bound. */
function startThreads(threads: number, maxConnections: number) {
  const settings = {
    current: {
      ...{ headTimeoutMs: 1_000, keepAliveTimeoutMs: 1_000, lingerMs: 1_000, stallTimeoutMs: 1_000 },
      bounds: { maxConnections, ...limits },
      headBounds: requestBounds,
      newConnections: { burst: 1_000_000, perSecond: 1_000_000 },
      streams: { max: 10_000, maxPerPeer: 10_000 },
      upgradeProtocols: new Set<string>(),
      clientAddress: fakeRules,
      proxyScheme: "http",
      tls: null,
    } satisfies TrafficSettings,
  };
  const memory = SharedConnectionCount.createMemory();
  const peers = new LocalPeerConnections();
  const shed = { total: 0, idle: 0 };
  const clock = { nowMs: 0 };
  return {
    clock,
    count: new SharedConnectionCount(memory, threads + 1),
    settings,
    shed,
    threads: Array.from({ length: threads }, (_, i) => {
      const count = new SharedConnectionCount(memory, i + 1);
      const nowMs = (): number => clock.nowMs;
      const table = new ConnectionTable(settings, count, nowMs, () => {});
      const limiter = new ConnectionLimiter({
        ...{ settings, connections: table, count, peers, answerOverloaded: null, nowMs },
        onConnectionShed: (reason) => {
          if (reason === "total" || reason === "idle") shed[reason] += 1;
        },
      });
      return { table, limiter, open: () => open(limiter, table) };
    }),
  };
}

/** Returns null if the connection was refused. */
function open(limiter: ConnectionLimiter, table: ConnectionTable): FakeConnection | null {
  const connection = new FakeConnection();
  if (!limiter.accept(connection.tcp) || !limiter.admit(connection.tcp, connection.peer)) return null;
  connection.socket.once("close", () => connection.place?.leave());
  table.add(connection);
  return connection;
}

type Thread = ReturnType<typeof startThreads>["threads"][number];

test("a thread without an idle connection admits a new one, and the one that has idle ones closes one for it", async () => {
  const { threads, count, shed } = startThreads(2, 4);
  const [first, second] = threads as [Thread, Thread];
  const openBusy = () => first.open()?.place?.begin();
  for (let i = 0; i < 2; i += 1) openBusy();
  const idle = [second.open(), second.open()];
  expect([openBusy(), openBusy()]).toEqual([true, true]);
  expect(first.open(), "nothing is left to be closed").toBeNull();
  expect([count.total, shed.total, idle.map((one) => one?.events)]).toEqual([6, 1, [[], []]]);
  await second.limiter.makeRoomForOthers();
  expect([count.total, shed.idle, idle.map((one) => one?.events)]).toEqual([4, 2, [["closed"], ["closed"]]]);
});

test("connections that are about to get their first request are not closed while another thread has older ones", async () => {
  const { threads, count, clock } = startThreads(2, 10);
  const [first, second] = threads as [Thread, Thread];
  for (let i = 0; i < 5; i += 1) first.open()?.place?.begin();
  const old = Array.from({ length: 5 }, () => second.open());
  clock.nowMs = 2_000;
  const added = Array.from({ length: 5 }, () => first.open());
  await first.limiter.makeRoomForOthers();
  expect(added.map((one) => one?.events)).toEqual(Array(5).fill([]));
  await second.limiter.makeRoomForOthers();
  expect(old.map((one) => one?.events)).toEqual(Array(5).fill(["closed"]));
  expect(count.total).toBe(10);
});

test("a connection that is about to get its first request is not closed by the sweep of its own thread, whatever the others' age", async () => {
  const { threads, count, clock } = startThreads(2, 6);
  const [first, second] = threads as [Thread, Thread];
  for (let i = 0; i < 3; i += 1) first.open()?.place?.begin();
  const others = Array.from({ length: 3 }, () => second.open());
  clock.nowMs = 500;
  const added = first.open();
  // Accepting it has begun to make room, which ends in a later turn.
  await new Promise(setImmediate);
  await first.limiter.makeRoomForOthers();
  expect([added?.events, count.total]).toEqual([[], 7]);
  // Whichever thread looks first: the one that has been idle longest goes.
  clock.nowMs = 1_000;
  await first.limiter.makeRoomForOthers();
  await second.limiter.makeRoomForOthers();
  expect([added?.events, others.map((one) => one?.events.length), count.total]).toEqual([[], [1, 0, 0], 6]);
});

test("no new connection is refused while more are idle than are over the total, and none that is busy is closed", async () => {
  const max = 30;
  const { threads, count, clock } = startThreads(3, max);
  const random = seededRandom(11);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const open = new Set<FakeConnection>();
  const busy = new Set<FakeConnection>();
  const seen = { refused: 0, over: 0 };
  for (let step = 0; step < scaled(100_000, 40); step += 1) {
    const act = random();
    clock.nowMs += 300 * random();
    const isCrowded = step % 2_000 < 1_000;
    const [thread, one] = [pick(threads), open.size === 0 ? null : pick([...open])];
    if (act < 0.4) {
      const idle = open.size - busy.size;
      const over = open.size + 1 - max;
      const added = thread.open();
      if (over <= 0 || over <= idle) expect(added).not.toBeNull();
      if (over > 0 && idle === 0) expect(added).toBeNull();
      if (added === null) seen.refused += 1;
      else open.add(added);
      added?.socket.once("close", () => {
        expect(busy.has(added)).toBe(false);
        open.delete(added);
      });
    } else if (act < (isCrowded ? 0.8 : 0.5)) {
      if (one?.place?.begin()) busy.add(one);
    } else if (act < 0.9) {
      if (one !== null) busy.delete(one);
      one?.place?.end();
    } else if (act < 0.95) {
      await thread.limiter.makeRoomForOthers();
    } else if (one !== null && !busy.has(one)) {
      one.socket.destroy();
    }
    expect([count.total, count.admitted]).toEqual([open.size, open.size]);
    expect(count.total).toBeLessThanOrEqual(max + 64);
    seen.over = Math.max(seen.over, count.total - max);
  }
  expect(seen.refused).toBeGreaterThan(scaled(100, 40));
  expect(seen.over).toBeGreaterThan(1);
  for (let round = 0; round < max; round += 1) {
    for (const { limiter } of threads) await limiter.makeRoomForOthers();
  }
  expect(count.total <= max || busy.size === open.size).toBe(true);
});

test("at most 64 connections are over the total before the other threads have closed theirs", async () => {
  const { threads, count } = startThreads(2, 200);
  const [first, second] = threads as [Thread, Thread];
  for (let i = 0; i < 200; i += 1) second.open();
  const added = Array.from({ length: 70 }, () => first.open());
  for (const one of added) one?.place?.begin();
  expect(count.total).toBeLessThanOrEqual(264);
  await second.limiter.makeRoomForOthers();
  expect(count.total).toBe(200);
});

test("when the total is lowered, idle connections over it are closed, and nobody is refused for them", async () => {
  const { threads, count, settings, shed } = startThreads(1, 500);
  const [thread] = threads as [Thread];
  const all = Array.from({ length: 400 }, () => thread.open());
  settings.current = { ...settings.current, bounds: { ...settings.current.bounds, maxConnections: 10 } };
  for (const one of all.slice(-20)) one?.place?.begin();
  await thread.limiter.makeRoomForOthers();
  expect(count.total).toBe(20);
  expect(all.slice(-20).map((one) => one?.events)).toEqual(Array(20).fill([]));
  for (const one of all.slice(-20)) one?.place?.end();
  await thread.limiter.makeRoomForOthers();
  expect([count.total, thread.open()?.events, shed.total]).toEqual([10, [], 0]);
});
