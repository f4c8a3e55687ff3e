import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import type { ClientConnection, ConnectionPlace } from "../../src/exchange/connection.ts";
import { ConnectionTable } from "../../src/listener/connection-table.ts";

class FakeConnection implements ClientConnection {
  readonly events: string[] = [];
  readonly idleTimeoutMs: number;
  activeCount = 0;
  place: ConnectionPlace | null = null;
  readonly socket: Socket;
  readonly tcp: Socket;

  constructor(idleTimeoutMs = 60_000) {
    this.idleTimeoutMs = idleTimeoutMs;
    const socket = {
      destroyed: false,
      destroy: () => {
        socket.destroyed = true;
        this.#note("closed");
      },
    };
    this.socket = socket as unknown as Socket;
    this.tcp = this.socket;
  }

  endWhenIdle = (): void => this.#note("ends");
  endStalled = (nowMs: number): void => this.#note(`asked at ${nowMs}`);
  forgetHead = (): void => this.#note("forgets");
  abort = (): void => this.#note("aborted");

  #note(event: string): void {
    this.events.push(event);
  }
}

function setUp(count: number, idleTimeoutMs?: number) {
  const clock = { nowMs: 0 };
  const table = new ConnectionTable(() => clock.nowMs);
  const connections = Array.from({ length: count }, () => new FakeConnection(idleTimeoutMs));
  for (const connection of connections) table.add(connection);
  const at = (i: number): FakeConnection => connections[i] as FakeConnection;
  const request = (i: number): void => {
    at(i).place?.setIdle(false);
    at(i).place?.setIdle(true);
  };
  return { clock, table, connections, at, request };
}

describe("the connection that has been idle longest", () => {
  test("is the first whose last request is over, busy ones left out, each once", () => {
    const { table, at, request } = setUp(5);
    request(1);
    at(2).place?.setIdle(false);
    request(0);
    at(3).place?.leave();
    expect(table.idleCount).toBe(3);
    expect([table.takeIdle(), table.takeIdle(), table.takeIdle(), table.takeIdle()]).toEqual([
      ...[at(4), at(1), at(0)],
      undefined,
    ]);
    at(4).place?.setIdle(true);
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
        one.place?.setIdle(act > 1);
      }
      expect(table.idleCount).toBe(idle.length);
    }
  });

  test("is not one whose socket is closed", () => {
    const { table, at } = setUp(1);
    at(0).place?.setIdle(false);
    at(0).socket.destroy();
    at(0).place?.setIdle(true);
    expect(table.takeIdle()).toBeUndefined();
  });
});

test("a sweep closes what was idle for its time, has what was idle for 5 s forget its head, and asks the busy ones", async () => {
  const { clock, table, at, request } = setUp(4, 10_000);
  clock.nowMs = 4_000;
  request(1);
  at(2).place?.setIdle(false);
  clock.nowMs = 6_000;
  request(3);
  clock.nowMs = 10_000;
  await table.sweep();
  expect([0, 1, 2, 3].map((i) => at(i).events)).toEqual([["closed"], ["forgets"], ["asked at 10000"], []]);
  clock.nowMs = 10_999;
  await table.sweep();
  expect(at(3).events).toEqual([]);
});
