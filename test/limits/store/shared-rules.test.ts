// Rules and forgiveness over three gateways and a real server, which is killed, stopped and emptied: what one gateway is told
// holds at all of them within two heartbeats of being able to reach it.
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { Rule } from "../../../src/core/rules.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { openRedisLink } from "../../../src/limits/store/redis/link.ts";
import { rulesScript } from "../../../src/limits/store/rules-script.ts";
import { storeScript } from "../../../src/limits/store/script.ts";
import { type Forgiveness, SharedRules } from "../../../src/limits/store/shared-rules.ts";
import { Store } from "../../../src/limits/store/store.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { realTimers as timers } from "../../support/timers.ts";
import { placeSecret, smallTable } from "../small-table.ts";
import { settingsOf } from "./redis/watched-link.ts";

const cleanup = useCleanup();
const client = "192.0.2.1";
const limit = 10;

const settings = {
  prefix: "headgate:",
  waitMs: 500,
  lease: { durationMs: 1000, most: 1000 },
  onFailure: "local",
  replicas: 3,
  maxKeys: 1000,
} as const;

class Gateway {
  readonly rules = new Map<string, Rule>();
  readonly shared: SharedRules;
  readonly store: Store;
  /** Resolves when it has forgotten what it was told to forget. */
  forgotten: Promise<unknown> = Promise.resolve();
  readonly #limiter: PolicyLimiter;

  constructor(port: number, name: string) {
    const link = (script: string) =>
      openRedisLink(settingsOf(port), { script, readFile: (path) => readFile(path, "utf8"), connectTimeoutMs: 5_000 });
    this.shared = new SharedRules({
      ...{ link: link(rulesScript), clock: systemClock, timers, prefix: settings.prefix, origin: name },
      onRules: ({ set, removed }, all) => {
        if (all) this.rules.clear();
        for (const id of removed) this.rules.delete(id);
        for (const rule of set) this.rules.set(rule.id, rule);
      },
      onForgiven: (forgiven, place) => {
        this.forgotten = this.forgotten.then(() => this.#forget(forgiven, place));
      },
      onState() {},
    });
    const table = smallTable();
    this.store = new Store({
      ...{ link: link(storeScript), settings, clock: systemClock, timers, table, secret: placeSecret },
      ...{ gateway: name.padEnd(12, "-"), thread: "-".repeat(10) },
      ...{ onSecret() {}, onChange() {}, onGone() {}, onIdentity() {}, onAnswered() {}, onWaited() {} },
      readForgiven: () => this.shared.readNow().then(() => this.forgotten),
    });
    const policies = [slidingPolicy({ limit, windowMs: 600_000 })];
    this.#limiter = new PolicyLimiter(policies, { clock: systemClock, table, store: this.store });
    this.store.open();
    this.shared.open();
    cleanup(async () => {
      await this.shared.close();
      await this.store.close();
    });
  }

  get isUp(): boolean {
    return this.store.figures().state === "up" && this.shared.figures().state === "read";
  }

  /** Asks so often, one after the other. Returns how many were admitted. */
  async ask(count: number): Promise<number> {
    let admitted = 0;
    for (let i = 0; i < count; i += 1) {
      const { request, head } = limitedRequest({ client });
      const { outcome } = await this.#limiter.decide(request, head, systemClock.monotonicMs());
      if (outcome === "admitted") admitted += 1;
    }
    return admitted;
  }

  set(id: string, note: string) {
    const about = { kind: "client" as const, value: client };
    const nowMs = systemClock.wallMs();
    const times = { setMs: nowMs, endsMs: nowMs + 600_000 };
    const rule = { id, about, action: "block" as const, policy: null, limit: null, ...times, note, setBy: "socket" };
    return this.shared.put({ ...rule, revision: 0 }, "any");
  }

  async forgive(): Promise<boolean> {
    const isShared = await this.shared.forgive({ kind: "client", value: client });
    await this.forgotten;
    return isShared;
  }

  get held(): string {
    return [...this.rules.values()]
      .map(({ id, note, revision }) => `${id} ${note} ${revision}`)
      .sort()
      .join(", ");
  }

  async #forget(forgiven: readonly Forgiveness[], place: number): Promise<void> {
    const context = { ipv6Prefix: 64, listed: null, routes: [] };
    for (const { name, seq } of forgiven) await this.#limiter.forgive(name, context, seq);
    this.store.forgivenUntil(place);
  }
}

async function startThree(server: RedisServer): Promise<readonly [Gateway, Gateway, Gateway]> {
  const [a, b, c] = [new Gateway(server.port, "a"), new Gateway(server.port, "b"), new Gateway(server.port, "c")];
  await allUp(a, b, c);
  return [a, b, c];
}

async function allUp(...gateways: readonly Gateway[]): Promise<void> {
  await eventually("all are up", () => gateways.every(({ isUp }) => isUp), 20_000);
}

async function allHold(what: RegExp, ...gateways: readonly Gateway[]): Promise<void> {
  const [first] = gateways;
  const isSame = (): boolean => gateways.every(({ held }) => held === first?.held && what.test(held));
  await eventually(`all hold ${what}: ${gateways.map(({ held }) => held).join("; ")}`, isSame, 10_000);
}

async function start(): Promise<RedisServer> {
  const server = await startRedis();
  cleanup(() => server.stop());
  return server;
}

describe.skipIf(skipRedis)(`three gateways${redisNeeded}`, () => {
  test("hold the rules that were set at any of them, with the same revisions", async () => {
    const [a, b, c] = await startThree(await start());
    const first = await a.set("one", "first");
    expect(first).toMatchObject({ outcome: "written", isShared: true });
    await allHold(/^one first \d+$/, a, b, c);
    const revision = a.rules.get("one")?.revision ?? 0;
    expect(await b.shared.remove("one", revision - 1)).toEqual({ outcome: "conflict", revision });
    await b.set("one", "second");
    await c.set("two", "third");
    await allHold(/^one second \d+, two third \d+$/, a, b, c);
    expect(await c.shared.remove("two", "any")).toMatchObject({ outcome: "written", isShared: true });
    await allHold(/^one second \d+$/, a, b, c);
    expect(await a.shared.remove("two", "any")).toEqual({ outcome: "conflict", revision: 0 });
  });

  test("admit exactly the limit again of a client that was forgiven at one of them", async () => {
    const [a, b, c] = await startThree(await start());
    expect([await a.ask(4), await b.ask(4), await c.ask(4)]).toEqual([4, 4, 2]);
    expect(await a.ask(2)).toBe(0);
    expect(await b.forgive()).toBe(true);
    expect(await b.ask(3)).toBe(3);
    const { place } = b.shared.figures();
    await eventually("the others have read it", () => [a, c].every(({ shared }) => shared.figures().place >= place));
    expect([await a.ask(4), await c.ask(4), await b.ask(4)]).toEqual([4, 3, 0]);
  });

  test("tell a store that was killed and has forgotten everything, and what was set at one of them meanwhile", {
    timeout: 40_000,
  }, async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await a.set("one", "first");
    await a.set("two", "second");
    await allHold(/^one first \d+, two second \d+$/, a, b, c);
    await a.shared.remove("two", "any");
    expect(await a.ask(limit)).toBe(limit);
    await b.forgive();
    await server.kill();
    await eventually("it is noticed", () => [a, b, c].every(({ shared }) => shared.figures().state === "away"));
    expect(await a.set("one", "alone at a")).toMatchObject({ isShared: false });
    await eventually(
      "the clock shows another millisecond",
      () => systemClock.wallMs() > (a.rules.get("one")?.setMs ?? 0),
    );
    expect(await b.set("one", "later at b")).toMatchObject({ isShared: false });
    expect(await c.set("three", "alone at c")).toMatchObject({ isShared: false });
    expect([a.held, c.held].map((held) => held.includes("alone"))).toEqual([true, true]);
    await server.restart();
    await allUp(a, b, c);
    await allHold(/^one later at b \d+, three alone at c \d+$/, a, b, c);
    // Nobody has told what was admitted before it was forgiven.
    expect((await a.ask(limit)) + (await b.ask(limit)) + (await c.ask(limit))).toBe(limit);
  });

  test("hold the same rule if two were set in the same instant while the store was away", async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await server.kill();
    await eventually("it is noticed", () => [a, b, c].every(({ shared }) => shared.figures().state === "away"));
    await Promise.all([a.set("one", "at a"), b.set("one", "at b")]);
    await server.restart();
    await allUp(a, b, c);
    await allHold(/^one at [ab] \d+$/, a, b, c);
  });

  test("go on with what they know while a server stands still, and read it all when the log was emptied", {
    timeout: 40_000,
  }, async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await a.set("one", "first");
    await allHold(/^one first \d+$/, a, b, c);
    process.kill(server.pid, "SIGSTOP");
    expect(await b.set("two", "alone at b")).toMatchObject({ outcome: "written", isShared: false });
    expect(await b.forgive()).toBe(false);
    expect(a.held).toMatch(/^one first \d+$/);
    process.kill(server.pid, "SIGCONT");
    await allHold(/^one first \d+, two alone at b \d+$/, a, b, c);
    await eventually("everything is told", () => [a, b, c].every(({ shared }) => shared.figures().untold === 0));
    server.cli("FLUSHALL");
    await a.set("three", "third");
    await allHold(/^one first \d+, three third \d+, two alone at b \d+$/, a, b, c);
  });
});
