// The states of a shard: when it is asked, when it is probed, and what it is told before it is asked again. What was found out of
// a store that has forgotten must not be forgotten by the gateway too.
import { describe, expect, test } from "vitest";
import {
  type CallFailure,
  type StateChange,
  StoreCounts,
  type StoreIdentity,
  type StoreLink,
} from "../../../src/core/store-link.ts";
import { StoreItems } from "../../../src/limits/store/items.ts";
import type { ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import { heartbeatMs, Shard } from "../../../src/limits/store/shard.ts";
import { ManualTimers } from "./manual-timers.ts";

const lost: CallFailure = { kind: "unreachable", detail: "lost" };
const failed: CallFailure = { kind: "failed", detail: "WRONGTYPE" };
type Identified = (identity: StoreIdentity | null, failure: CallFailure | null) => void;

class Scene {
  readonly timers = new ManualTimers();
  readonly changes: StateChange[] = [];
  /** What the state has made happen, in order. Heartbeats are answered at once, and are not among it. */
  readonly done: string[] = [];
  /** Must be called when a telling is complete. */
  told: () => void = () => undefined;
  /** The run of the server that answers, the origin of its list, and whether it answers no heartbeat. */
  epoch = "one";
  origin = "one";
  isSilent = false;
  readonly counts = new StoreCounts();
  #identified: Identified = () => undefined;
  #listed: (answer: ScriptAnswer | null) => void = () => undefined;
  readonly state: Shard;

  constructor() {
    const link = {
      identify: (_: number, identified: Identified) => {
        this.#identified = identified;
        if (this.state.state === "away") this.done.push("probe");
        else if (!this.isSilent) this.identified();
      },
      anyTagOf: () => "0",
      reconnect: () => this.done.push("reconnect"),
    } as unknown as StoreLink;
    this.state = new Shard(7, {
      ...{ link, clock: this.timers.clock, timers: this.timers, counts: this.counts },
      items: new StoreItems({ prefix: "headgate:" }, "gateway-aaaa", "thread-aaa"),
      send: (_, __, answered) => {
        this.#listed = answered;
      },
      readSecret: (done) => done(),
      tell: (_, all, told) => {
        this.done.push(all ? "tell all" : "tell");
        this.told = told;
      },
      seen: () => undefined,
      changed: (change) => this.changes.push(change),
      identified: () => undefined,
    });
  }

  /** The server says who it is. */
  identified(): void {
    this.#identified({ epoch: this.epoch, evictedKeys: 0, server: "Redis", warnings: [] }, null);
  }

  /** Answers the probe, or a heartbeat. */
  probed(): void {
    this.identified();
    this.#listed({ timeUs: 0, items: [{ item: "gateways", origin: this.origin, gateways: 1 }], requests: [] });
  }

  /** Connects, answers the probe, and is told. */
  up(): this {
    this.state.connected();
    this.probed();
    this.told();
    expect(this.state.state).toBe("up");
    this.done.length = 0;
    this.changes.length = 0;
    return this;
  }

  reconnect(): void {
    this.state.disconnected(lost);
    this.state.connected();
  }

  /** Lets time pass, and ends the turn. */
  pass(ms: number): void {
    this.timers.advance(ms);
    this.timers.endTurn();
  }

  causes(): string[] {
    return this.changes.map(({ from, to, cause }) => `${from} ${to} ${cause}`);
  }
}

test("a store that is reached is probed at once, told, and then asked", () => {
  const scene = new Scene();
  expect(scene.state.state).toBe("away");
  scene.state.connected();
  scene.timers.advance(5);
  scene.probed();
  scene.told();
  expect(scene.done).toEqual(["probe", "tell"]);
  expect(scene.causes()).toEqual(["away returned answered", "returned up told"]);
  expect(scene.changes[0]).toMatchObject({ shard: 7, lastedMs: 5 });
});

test("why a store refuses its first probe is said", () => {
  const scene = new Scene();
  scene.state.connected();
  scene.state.failed({ kind: "refused", detail: "NOPERM" });
  expect(scene.state.state).toBe("away");
  expect(scene.causes()).toEqual(["away away refused"]);
  expect(scene.changes[0]).toMatchObject({ shard: 7, detail: "NOPERM" });
});

describe("a late answer", () => {
  test("makes the shard slow until it comes", () => {
    const scene = new Scene().up();
    scene.state.overdue();
    scene.state.overdue();
    scene.timers.advance(999);
    scene.state.caughtUp();
    scene.timers.advance(5_000);
    expect(scene.causes()).toEqual(["up slow overdue", "slow up answered"]);
  });

  test("is given up after a second, and the connection with it", () => {
    const scene = new Scene().up();
    scene.state.overdue();
    scene.timers.advance(1_000);
    scene.timers.endTurn();
    expect(scene.causes()).toEqual(["up slow overdue", "slow away overdue"]);
    expect(scene.done).toEqual(["reconnect"]);
    scene.state.caughtUp();
    expect(scene.state.state).toBe("away");
  });
});

describe("errors of calls", () => {
  test("one that concerns the server ends the asking", () => {
    const scene = new Scene().up();
    scene.state.failed({ kind: "full", detail: "OOM" });
    expect(scene.causes()).toEqual(["up away full"]);
  });

  test("one that may concern a single key does so only three times in a row", () => {
    const scene = new Scene().up();
    scene.state.failed(failed);
    scene.state.failed(failed);
    scene.state.answered();
    scene.state.failed(failed);
    scene.state.failed(failed);
    expect(scene.state.state).toBe("up");
    scene.state.failed(failed);
    expect(scene.causes()).toEqual(["up away failed"]);
  });
});

describe("while it is away", () => {
  test("one probe at a time is sent, after pauses of 50 ms to 1 s", () => {
    const scene = new Scene().up();
    scene.state.failed({ kind: "full", detail: "OOM" });
    const pausesMs: number[] = [];
    let beforeMs = scene.timers.clock.nowMs;
    for (let i = 0; i < 71; i += 1) {
      scene.timers.advance(50);
      if (scene.done.length === pausesMs.length) continue;
      pausesMs.push(scene.timers.clock.nowMs - beforeMs);
      beforeMs = scene.timers.clock.nowMs;
      // Calls that were sent before fail too; only the probe counts.
      scene.state.failed(failed);
      scene.state.failed(failed);
    }
    expect(pausesMs).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  });

  test("a probe without an answer is given up after a second, and the connection with it", () => {
    const scene = new Scene();
    scene.state.connected();
    scene.timers.advance(1_000);
    scene.timers.endTurn();
    expect(scene.done).toEqual(["probe", "reconnect"]);
  });

  test("nobody is probed without a connection", () => {
    const scene = new Scene().up();
    scene.state.disconnected(lost);
    scene.timers.advance(10_000);
    expect(scene.done).toEqual([]);
    scene.state.connected();
    expect(scene.done).toEqual(["probe"]);
  });
});

describe("what has to be told", () => {
  test("after an absence: what was admitted since the shard was up", () => {
    const scene = new Scene().up();
    scene.timers.advance(100);
    const leftMs = scene.timers.clock.nowMs;
    scene.state.disconnected(lost);
    scene.timers.advance(100);
    scene.state.connected();
    scene.probed();
    expect(scene.state.leftMs).toBe(leftMs);
    scene.told();
    expect(scene.done).toEqual(["probe", "tell"]);
    expect(scene.state.state).toBe("up");
  });

  test("after a loss: everything, and for two seconds at least", () => {
    const scene = new Scene().up();
    scene.state.forgot("another server answers");
    scene.told();
    scene.timers.advance(1_999);
    expect(scene.state.state).toBe("returned");
    scene.timers.advance(1);
    expect(scene.causes()).toEqual(["up returned forgot", "returned up told"]);
    expect(scene.done).toEqual(["tell all"]);
  });

  test.each([
    ["at the next heartbeat", (scene: Scene) => scene.pass(heartbeatMs)],
    [
      "after an absence of a minute",
      (scene: Scene) => {
        scene.reconnect();
        scene.pass(60_000);
      },
    ],
  ])("after the list of gateways was lost, whoever has made it again: everything, %s", (_, happen) => {
    const scene = new Scene().up();
    scene.origin = "two";
    happen(scene);
    scene.probed();
    expect([scene.state.state, scene.done.at(-1), scene.counts.forgot]).toEqual(["returned", "tell all", 1]);
    scene.told();
    scene.pass(2 * heartbeatMs);
    scene.probed();
    expect([scene.state.state, scene.counts.forgot]).toEqual(["up", 1]);
  });

  test.each([
    ["the server has said who it is", (scene: Scene) => scene.identified()],
    ["everything was told", (scene: Scene) => scene.probed()],
  ])("after a loss, if the shard was lost again when %s: everything, once", (_, happen) => {
    const scene = new Scene().up();
    scene.epoch = "two";
    scene.reconnect();
    happen(scene);
    scene.reconnect();
    scene.probed();
    expect([scene.state.state, scene.done.at(-1), scene.counts.forgot]).toEqual(["returned", "tell all", 1]);
    scene.told();
    scene.pass(2 * heartbeatMs);
    expect(scene.state.state).toBe("up");
    scene.reconnect();
    scene.probed();
    expect(scene.done.at(-1)).toBe("tell");
  });

  test("for two seconds at most: then the shard is asked, and told key by key", () => {
    const scene = new Scene().up();
    scene.reconnect();
    scene.probed();
    scene.timers.advance(2_000);
    expect(scene.state.state).toBe("up");
  });

  test("a telling that ends after the shard was lost again counts for nothing", () => {
    const scene = new Scene().up();
    scene.reconnect();
    scene.probed();
    const { told } = scene;
    scene.reconnect();
    scene.probed();
    told();
    expect(scene.state.state).toBe("returned");
    scene.told();
    expect(scene.state.state).toBe("up");
  });
});

describe("a server that is silent when it is asked who it is, while no request asks it for anything", () => {
  /** After a heartbeat that was answered. */
  function silent(): Scene {
    const scene = new Scene().up();
    scene.pass(heartbeatMs - 1);
    scene.isSilent = true;
    scene.pass(1);
    return scene;
  }

  test("is slow after a heartbeat, and away with a new connection after another second", () => {
    const scene = silent();
    scene.pass(heartbeatMs - 1);
    expect(scene.state.state).toBe("up");
    scene.pass(1);
    expect(scene.state.state).toBe("slow");
    scene.pass(1_000);
    expect([scene.state.state, scene.done]).toEqual(["away", ["reconnect"]]);
  });

  test("is up if it answers before", () => {
    const scene = silent();
    for (let i = 0; i < 5; i += 1) {
      scene.pass(heartbeatMs - 1);
      scene.probed();
      scene.pass(1);
    }
    expect([scene.state.state, scene.done]).toEqual(["up", []]);
  });

  test("says nothing more when the shard is closed", () => {
    const scene = silent();
    scene.state.close();
    scene.pass(3 * heartbeatMs);
    expect([scene.state.state, scene.done]).toEqual(["up", []]);
  });
});

test("each absence and each loss is another incident", () => {
  const scene = new Scene().up();
  const seen = new Set([scene.state.incident]);
  for (const happen of [
    () => scene.state.disconnected(lost),
    () => scene.up(),
    () => scene.state.forgot(""),
    () => scene.state.forgot(""),
  ]) {
    happen();
    seen.add(scene.state.incident);
  }
  expect(seen.size).toBe(5);
});

test("after the end nothing happens", () => {
  const scene = new Scene().up();
  scene.state.overdue();
  scene.state.close();
  scene.state.disconnected(lost);
  scene.state.forgot("");
  expect(scene.causes()).toEqual(["up slow overdue"]);
  expect(scene.timers.waiting).toBe(0);
});
