// A shard whose store has forgotten, and is lost again before that could be told: what was found out must not be forgotten
// by the gateway too. And one that is silent.
import { beforeEach, describe, expect, test } from "vitest";
import { StoreCounts, type StoreIdentity, type StoreLink, type StoreState } from "../../../src/core/store-link.ts";
import { StoreItems } from "../../../src/limits/store/items.ts";
import type { GatewaysAnswer, ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import { heartbeatMs, Shard } from "../../../src/limits/store/shard.ts";
import { FakeClock } from "../../support/clock.ts";

const lost = { kind: "unreachable", detail: "lost" } as const;
const settings = { prefix: "headgate:", lease: { durationMs: 1_000, most: 1_000 } };

type Identified = (identity: StoreIdentity | null, failure: null) => void;

/** One shard, whose server answers when the test says so. */
class Scene {
  readonly clock = new FakeClock();
  readonly counts = new StoreCounts();
  /** Whether everything was told, for each telling. */
  readonly tellings: boolean[] = [];
  finishTelling = (): void => {};
  reconnects = 0;
  #timers: { dueMs: number; run: () => void }[] = [];
  #identified: Identified = () => {};
  #listed: (answer: ScriptAnswer | null) => void = () => {};
  readonly shard: Shard;

  constructor() {
    const link = {
      identify: (_: number, identified: Identified) => {
        this.#identified = identified;
      },
      anyTagOf: () => "0",
      reconnect: () => {
        this.reconnects += 1;
      },
    } as unknown as StoreLink;
    this.shard = new Shard(0, {
      ...{ link, clock: this.clock, counts: this.counts },
      items: new StoreItems(settings, "gateway-aaaa", "thread-aaa"),
      timers: {
        after: (ms, run) => {
          const timer = { dueMs: this.clock.nowMs + ms, run };
          this.#timers.push(timer);
          return {
            cancel: () => {
              this.#timers = this.#timers.filter((each) => each !== timer);
            },
          };
        },
        endOfTurn: (run) => run(),
      },
      send: (_, __, answered) => {
        this.#listed = answered;
      },
      readSecret: (done) => done(),
      tell: (_, all, told) => {
        this.tellings.push(all);
        this.finishTelling = told;
      },
      seen() {},
      changed() {},
      identified() {},
    });
  }

  get state(): StoreState {
    return this.shard.state;
  }

  identify(epoch: string): void {
    this.#identified({ epoch, evictedKeys: 0, server: "Redis 7.0", warnings: [] }, null);
  }

  list(wasListed: boolean): void {
    const item: GatewaysAnswer = { item: "gateways", wasListed, gateways: 1 };
    this.#listed({ requests: [], timeUs: 1, items: [item] });
  }

  advance(ms: number): void {
    const endMs = this.clock.nowMs + ms;
    for (;;) {
      const next = this.#timers.filter(({ dueMs }) => dueMs <= endMs).sort((a, b) => a.dueMs - b.dueMs)[0];
      if (next === undefined) break;
      this.#timers.splice(this.#timers.indexOf(next), 1);
      this.clock.nowMs = Math.max(this.clock.nowMs, next.dueMs);
      next.run();
    }
    this.clock.nowMs = endMs;
  }

  reconnect(): void {
    this.shard.disconnected(lost);
    this.shard.connected();
    this.advance(100);
  }
}

describe("a store that has forgotten", () => {
  let scene = new Scene();
  beforeEach(() => {
    scene = new Scene();
    scene.shard.connected();
    scene.identify("one");
    scene.list(false);
    scene.finishTelling();
    expect([scene.state, scene.tellings]).toEqual(["up", [false]]);
  });

  test("is told everything, for two heartbeats at least", () => {
    scene.reconnect();
    scene.identify("two");
    scene.list(true);
    expect([scene.state, scene.tellings, scene.counts.forgot]).toEqual(["returned", [false, true], 1]);
    scene.finishTelling();
    expect(scene.state).toBe("returned");
    scene.advance(2 * heartbeatMs);
    expect(scene.state).toBe("up");
  });

  test("is told everything, if it was lost between saying who it is and being listed", () => {
    scene.reconnect();
    scene.identify("two");
    scene.reconnect();
    scene.identify("two");
    scene.list(true);
    expect([scene.state, scene.tellings.at(-1), scene.counts.forgot]).toEqual(["returned", true, 1]);
  });

  test("is told everything, if it was lost while it was told", () => {
    scene.reconnect();
    scene.identify("two");
    scene.list(true);
    scene.reconnect();
    scene.identify("two");
    scene.list(true);
    expect([scene.state, scene.tellings]).toEqual(["returned", [false, true, true]]);
    scene.finishTelling();
    scene.advance(2 * heartbeatMs);
    expect(scene.state).toBe("up");
    scene.reconnect();
    scene.identify("two");
    scene.list(true);
    expect(scene.tellings).toEqual([false, true, true, false]);
  });
});

describe("a store that is silent when it is asked who it is, while no request asks it for anything", () => {
  let scene = new Scene();
  beforeEach(() => {
    scene = new Scene();
    scene.shard.connected();
    scene.identify("one");
    scene.list(false);
    scene.finishTelling();
    scene.advance(heartbeatMs);
  });

  test("is slow after a heartbeat, and away with a new connection after another second", () => {
    scene.advance(heartbeatMs - 1);
    expect(scene.state).toBe("up");
    scene.advance(1);
    expect(scene.state).toBe("slow");
    scene.advance(1_000);
    expect([scene.state, scene.reconnects]).toEqual(["away", 1]);
  });

  test("is up if it answers before", () => {
    for (let i = 0; i < 5; i += 1) {
      scene.advance(heartbeatMs - 1);
      scene.identify("one");
      scene.list(true);
      scene.advance(1);
    }
    expect([scene.state, scene.reconnects]).toEqual(["up", 0]);
  });

  test("says nothing more when the shard is closed", () => {
    scene.shard.close();
    scene.advance(3 * heartbeatMs);
    expect([scene.state, scene.reconnects]).toEqual(["up", 0]);
  });
});
