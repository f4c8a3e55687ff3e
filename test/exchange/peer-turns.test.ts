// One peer with many busy connections beside another one: who is read how often in an iteration of the event loop.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as iteration } from "node:timers/promises";
import { expect, test } from "vitest";
import { type PeerTurn, PeerTurns, readSteps, textSteps } from "../../src/exchange/peer-turns.ts";
import { useCleanup } from "../support/cleanup.ts";
import { slidingPolicy } from "../support/policy.ts";
import { request, response, stageRaw } from "../support/stage.ts";

/** A socket whose handle says whether it is read. */
class FakeSocket extends EventEmitter {
  isRead = true;
  readonly _handle = {
    /** As its stream sees it. */
    reading: true,
    readStop: () => {
      this.isRead = false;
    },
    readStart: () => {
      this.isRead = true;
    },
  };

  receive(): void {
    if (this.isRead) this.emit("data", Buffer.of(0));
  }
}

function add(turns: PeerTurns, peer: string | null, count: number): FakeSocket[] {
  return Array.from({ length: count }, () => {
    const socket = new FakeSocket();
    const turn = turns.add(socket as unknown as Socket, peer);
    socket.on("data", () => turn.onRead(readSteps, true)).once("close", () => turn.leave());
    return socket;
  });
}

const read = (sockets: readonly FakeSocket[]): number => sockets.filter(({ isRead }) => isRead).length;

test("a peer that is alone is read without a bound while it has few connections", async () => {
  const turns = new PeerTurns();
  const sockets = add(turns, "a", 256);
  for (let i = 0; i < 3; i += 1) {
    for (const socket of sockets) socket.receive();
    expect(read(sockets)).toBe(256);
    await iteration();
  }
});

test("a peer that is alone has a bound if it has many connections, since the next peer would wait", () => {
  const turns = new PeerTurns();
  const sockets = add(turns, "a", 1_000);
  let reads = 0;
  for (const socket of sockets) socket.on("data", () => (reads += 1));
  for (const socket of sockets) socket.receive();
  expect(reads).toBe(256);
});

test("beside a trusted proxy, a peer has the same bound as beside another peer", () => {
  const turns = new PeerTurns();
  const [busy, proxy] = [add(turns, "a", 100), add(turns, null, 1)];
  let reads = 0;
  for (const socket of busy) socket.on("data", () => (reads += 1));
  for (const socket of busy) socket.receive();
  expect(reads).toBe(32);
  for (const socket of proxy) socket.emit("close");
  for (const socket of busy) socket.emit("close");
  expect(turns.readers.size).toBe(0);
});

test("connections that are read again have nothing left behind one whose request took all", async () => {
  const turns = new PeerTurns();
  add(turns, "b", 1);
  const taken: boolean[] = [];
  const sockets = Array.from({ length: 40 }, () => {
    const socket = new FakeSocket();
    const turn = turns.add(socket as unknown as Socket, "a");
    socket.on("data", () => {
      const isPaid = turn.onRead(readSteps, true);
      taken.push(isPaid);
      if (isPaid) turn.spend(textSteps(8_000));
    });
    return socket;
  });
  // One ends each iteration.
  for (let i = 0; i < 60; i += 1) {
    for (const socket of sockets) socket.receive();
    expect(taken.filter(Boolean).length).toBeLessThanOrEqual(1);
    taken.length = 0;
    await iteration();
  }
});

test("connections that are read again take no more than the bound, whatever each of their requests takes", async () => {
  const turns = new PeerTurns();
  add(turns, "b", 1);
  const steps = new Map<number, number>();
  const spend = (turn: PeerTurn, count: number): void => {
    turn.spend(count);
    steps.set(turns.iteration, (steps.get(turns.iteration) ?? 0) + count);
  };
  const sockets = Array.from({ length: 100 }, () => {
    const socket = new FakeSocket();
    const turn = turns.add(socket as unknown as Socket, "a");
    const answer = (): void => spend(turn, 500);
    socket.on("data", () => {
      const isPaid = turn.onRead(readSteps, true);
      spend(turn, 0);
      if (isPaid) answer();
      else turn.wait({ continueTurn: answer });
    });
    return socket;
  });
  for (let i = 0; i < 60; i += 1) {
    for (const socket of sockets) socket.receive();
    await iteration();
  }
  expect(Math.min(...[...steps.values()].slice(1, -1))).toBeGreaterThan(0);
  // The last of them may take more than was left.
  expect(Math.max(...steps.values())).toBeLessThan(4096 + 500);
});

test("a connection that waits for its turn is not read until then", async () => {
  const turns = new PeerTurns();
  const socket = new FakeSocket();
  const turn: PeerTurn = turns.add(socket as unknown as Socket, "a");
  let isReadInTurn: boolean | null = null;
  turn.wait({ continueTurn: () => (isReadInTurn = socket.isRead) });
  expect(socket.isRead).toBe(false);
  await iteration();
  expect([isReadInTurn, socket.isRead]).toEqual([false, true]);
});

test("what was read is answered before more connections are read, and each has its turn", async () => {
  const turns = new PeerTurns();
  add(turns, "b", 1);
  const left = new Map<FakeSocket, number>();
  const reads = new Map<FakeSocket, number>();
  const sockets = Array.from({ length: 200 }, () => {
    const socket = new FakeSocket();
    const turn = turns.add(socket as unknown as Socket, "a");
    // Each read brings as much as a connection may do in four iterations.
    const answer = (): void => {
      const rest = (left.get(socket) ?? 0) - 1;
      left.set(socket, rest);
      turn.spend(1024);
      if (rest > 0) turn.wait({ continueTurn: answer });
    };
    socket.on("data", () => {
      reads.set(socket, (reads.get(socket) ?? 0) + 1);
      left.set(socket, 4);
      if (turn.onRead(readSteps, true)) answer();
      else turn.wait({ continueTurn: answer });
    });
    return socket;
  });
  let most = 0;
  for (let i = 0; i < 600; i += 1) {
    for (const socket of sockets) socket.receive();
    most = Math.max(most, [...left.values()].filter((rest) => rest > 0).length);
    await iteration();
  }
  expect(most).toBeLessThanOrEqual(40);
  expect(Math.min(...sockets.map((socket) => reads.get(socket) ?? 0))).toBeGreaterThanOrEqual(2);
});

test("a peer that is alone has a bound on one read that comes in many pieces", async () => {
  const turn = new PeerTurns().add(new FakeSocket() as unknown as Socket, "a");
  const granted = (): number => Array.from({ length: 100 }, () => turn.onRead(readSteps, true)).filter(Boolean).length;
  expect(granted()).toBeLessThan(40);
  await iteration();
  expect(granted()).toBeGreaterThan(30);
});

test("beside another peer, 32 reads of one peer end its iteration, and each of its connections has its turn", async () => {
  const turns = new PeerTurns();
  const [busy, [other]] = [add(turns, "a", 100), add(turns, "b", 1)];
  const reads = new Map(busy.map((socket) => [socket, 0]));
  for (const socket of busy) socket.on("data", () => reads.set(socket, (reads.get(socket) ?? 0) + 1));
  for (let i = 0; i < 25; i += 1) {
    let before = 0;
    for (const count of reads.values()) before += count;
    for (const socket of busy) socket.receive();
    let after = 0;
    for (const count of reads.values()) after += count;
    expect(after - before).toBe(32);
    expect(other?.isRead).toBe(true);
    await iteration();
  }
  expect(Math.max(...reads.values()) - Math.min(...reads.values())).toBeLessThanOrEqual(3);
  for (let i = 0; i < 4; i += 1) await iteration();
  expect(read(busy)).toBe(100);
});

test("of connections that are read again, few begin where a read has come in thousands of pieces", async () => {
  const turns = new PeerTurns();
  add(turns, "b", 1);
  let ofRead = 1_000;
  let reads = 0;
  const sockets = Array.from({ length: 100 }, () => {
    const socket = new FakeSocket();
    const turn = turns.add(socket as unknown as Socket, "a");
    // As with TLS, one read is delivered whole, although its handle is stopped meanwhile.
    socket.on("data", () => {
      for (let i = 0; i < ofRead; i += 1) turn.onRead(readSteps, true);
      reads += 1;
    });
    return socket;
  });
  const readsInIteration = async (): Promise<number> => {
    reads = 0;
    for (const socket of sockets) socket.receive();
    await iteration();
    return reads;
  };
  for (let i = 0; i < 300; i += 1) expect(await readsInIteration()).toBe(1);
  ofRead = 1;
  expect([await readsInIteration(), await readsInIteration(), await readsInIteration()]).toEqual([1, 32, 32]);
});

test("a connection that its stream has stopped since is not started", async () => {
  const turns = new PeerTurns();
  const [busy] = [add(turns, "a", 33), add(turns, "b", 1)];
  for (const socket of busy) socket.receive();
  expect(read(busy)).toBe(0);
  const [first] = busy;
  if (first !== undefined) first._handle.reading = false;
  for (let i = 0; i < 3; i += 1) await iteration();
  expect(busy.map(({ isRead }) => isRead)).toEqual([false, ...Array.from({ length: 32 }, () => true)]);
});

test("connections that close are forgotten, and a peer that is alone again has no bound", async () => {
  const turns = new PeerTurns();
  const [busy, others] = [add(turns, "a", 40), add(turns, "b", 2)];
  for (const socket of busy) socket.receive();
  expect(read(busy)).toBe(0);
  for (const socket of others) socket.emit("close");
  for (let i = 0; i < 2; i += 1) await iteration();
  for (const socket of busy) socket.receive();
  expect(read(busy)).toBe(40);
});

const cleanup = useCleanup();

test("a request of another client overtakes those of a peer with 400 busy connections", async () => {
  const order: string[] = [];
  const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
  const { connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      order.push(/from-(\w)/.exec(data.toString("latin1"))?.[1] ?? "?");
      socket.write(response("ok"));
    },
    { policies, upstream: { maxConnections: 1_000 } },
  );
  const busy = Array.from({ length: 400 }, () => connect({ localAddress: "127.0.0.2" }));
  const other = connect({ localAddress: "127.0.0.3" });
  const all = async (): Promise<void> => {
    order.length = 0;
    for (const client of busy) client.write(request("/v2/from-a"));
    other.write(request("/v2/from-b"));
    for (const { status } of await Promise.all([...busy, other].map((client) => client.read())))
      expect(status).toBe(200);
  };
  // The first requests are sent while the connections are accepted.
  await all();
  await all();
  expect(order).toHaveLength(401);
  expect(order.indexOf("b")).toBeLessThan(100);
});
