// The list of the gateways that share a store, on a real server: who is there, who is not any more, and what something else
// that writes to the store cannot do with it.
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { type GatewayFacts, type ListedGateway, Presence } from "../../../src/limits/store/presence.ts";
import { openRedisLink } from "../../../src/limits/store/redis/link.ts";
import { longestGateway, mostGateways, rulesScript } from "../../../src/limits/store/rules-script.ts";
import { SharedRules } from "../../../src/limits/store/shared-rules.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { realTimers } from "../../support/timers.ts";
import { settingsOf } from "./redis/watched-link.ts";

const cleanup = useCleanup();
const key = "headgate:1:{rules}:present";
const startedMs = 1_800_000_000_000;
const factsOf = (name: string): GatewayFacts => ({ name, version: "1.2.3", startedMs, admin: "10.0.0.8:9464" });
const names = (gateway: Pick<Presence, "gateways">): string =>
  gateway
    .gateways()
    .map(({ name }) => name)
    .join(" ");

async function start(): Promise<RedisServer> {
  return cleanup(await startRedis());
}

/** Says with the heartbeat of its rules that it is there. */
class Gateway {
  readonly #presence: Presence;
  readonly #rules: SharedRules;

  /** `name`: begins its id. */
  constructor({ port }: RedisServer, name: string) {
    const options = {
      script: rulesScript,
      readFile: (path: string) => readFile(path, "utf8"),
      connectTimeoutMs: 5_000,
    };
    const link = openRedisLink(settingsOf(port), options);
    const id = name.padEnd(12, "-");
    this.#presence = new Presence(id);
    this.#rules = new SharedRules({
      ...{ link, clock: systemClock, timers: realTimers, prefix: "headgate:", origin: id, presence: this.#presence },
      ...{ onRules() {}, onForgiven() {}, onTakenBack() {}, onState() {} },
    });
  }

  async open(): Promise<this> {
    this.#rules.open();
    await this.#rules.firstRead();
    return this;
  }

  announce(about: () => GatewayFacts): void {
    this.#presence.announce(about);
    void this.#rules.readNow();
  }

  gateways(): readonly ListedGateway[] {
    return this.#presence.gateways();
  }

  leave(): Promise<void> {
    return this.#rules.close();
  }
}

/** Resolves when it can reach the store. `name`: begins its id. */
function open(server: RedisServer, name: string): Promise<Gateway> {
  const gateway = new Gateway(server, name);
  cleanup(() => gateway.leave());
  return gateway.open();
}

/** Writes entries as gateways do that were heard so long ago. */
function write(server: RedisServer, texts: string | readonly string[], ageSeconds = 0): void {
  const score = String((systemClock.wallMs() - ageSeconds * 1000) * 1000);
  server.cli("ZADD", key, ...[texts].flat().flatMap((text) => [score, text]));
}

describe.skipIf(skipRedis)(`gateways with one store${redisNeeded}`, () => {
  test("see each other by name, and each sees which one it is itself", async () => {
    const server = await start();
    const [b, a] = [await open(server, "b"), await open(server, "a")];
    expect(a.gateways()).toEqual([]);
    a.announce(() => factsOf("edge-1"));
    b.announce(() => ({ ...factsOf("edge-2"), admin: null }));
    await eventually("both are listed", () => names(a) === "edge-1 edge-2" && names(b) === "edge-1 edge-2");
    expect(a.gateways()).toEqual([
      { ...factsOf("edge-1"), isSelf: true },
      { ...factsOf("edge-2"), admin: null, isSelf: false },
    ]);
    expect(b.gateways().map(({ isSelf }) => isSelf)).toEqual([false, true]);
  });

  test("do not see one that has left, or that was silent for 10 s", async () => {
    const server = await start();
    const [a, b] = [await open(server, "a"), await open(server, "b")];
    a.announce(() => factsOf("edge-1"));
    b.announce(() => factsOf("edge-2"));
    await eventually("both are listed", () => names(a) === "edge-1 edge-2");
    write(server, `dead-------- ${JSON.stringify(factsOf("dead"))}`, 11);
    write(server, `quiet------- ${JSON.stringify(factsOf("quiet"))}`, 1);
    await eventually("one is listed that was heard lately", () => names(a) === "edge-1 edge-2 quiet");
    await b.leave();
    await eventually("the other one is alone", () => names(a) === "edge-1 quiet");
    expect(server.cli("ZRANGE", key, "0", "-1")).not.toMatch(/edge-2|dead/);
    expect(Number(server.cli("PTTL", key))).toBeGreaterThan(0);
  });

  test("see what one says of itself now, and one with a strange name", async () => {
    const server = await start();
    const [a, b] = [await open(server, "a"), await open(server, "b")];
    let admin: string | null = null;
    a.announce(() => ({ ...factsOf('edge "1"\n'), admin }));
    b.announce(() => factsOf("other"));
    await eventually("it is listed", () => names(b) === "edge??1?? other");
    expect(b.gateways()[0]?.admin).toBeNull();
    admin = "[::1]:9464";
    await eventually("it has another address", () => b.gateways()[0]?.admin === admin);
    expect(server.cli("ZCARD", key)).toBe("2");
  });

  test("do not show what no gateway writes, and bound what they read", async () => {
    const server = await start();
    const a = await open(server, "a");
    a.announce(() => factsOf("edge-1"));
    const broken = [
      ...["", "text", "null", "[]", "{}", '{"name":"x"}'],
      JSON.stringify({ ...factsOf("x"), name: "<b>\u001b[31m" }),
      JSON.stringify({ ...factsOf(""), version: "1" }),
      JSON.stringify({ ...factsOf("n".repeat(256)) }),
      JSON.stringify({ ...factsOf("x"), version: "v".repeat(65) }),
      JSON.stringify({ ...factsOf("x"), version: 1 }),
      ...[-1, 1.5, 1e300, "now", null].map((at) => JSON.stringify({ ...factsOf("x"), startedMs: at })),
      ...["10.0.0.8", "http://evil/", 9464, {}].map((at) => JSON.stringify({ ...factsOf("x"), admin: at })),
    ];
    write(
      server,
      broken.map((text, i) => `hostile-${String(i).padStart(4, "0")} ${text}`),
    );
    const long = { ...factsOf("long"), more: "x".repeat(longestGateway) };
    write(server, `too-long---- ${JSON.stringify(long)}`);
    write(server, `a----------- ${JSON.stringify(factsOf("another-self"))}`);
    server.cli("ZADD", key, "+inf", `for-ever---- ${JSON.stringify(factsOf("for-ever"))}`);
    write(server, `good-------- ${JSON.stringify({ ...factsOf("good"), isSelf: true, more: 1 })}`);
    await eventually("what is right is listed", () => names(a) === "edge-1 good");
    expect(a.gateways().map(({ isSelf }) => isSelf)).toEqual([true, false]);
    expect(Object.keys(a.gateways()[1] ?? {})).toHaveLength(5);
    expect(server.cli("ZRANGE", key, "0", "-1")).not.toMatch(/too-long|another-self|for-ever/);
  });

  test("list 100 at most, themselves among them", async () => {
    const server = await start();
    const a = await open(server, "a");
    const textOf = (i: number) => `g${String(i).padStart(11, "0")} ${JSON.stringify(factsOf(`edge-${i}`))}`;
    write(
      server,
      Array.from({ length: mostGateways + 50 }, (_, i) => textOf(i)),
      1,
    );
    a.announce(() => factsOf("self"));
    await eventually("they are listed", () => a.gateways().length > 1);
    expect(a.gateways()).toHaveLength(mostGateways);
    expect(a.gateways().filter(({ isSelf }) => isSelf)).toHaveLength(1);
    expect(server.cli("ZCARD", key)).toBe(String(mostGateways));
  });

  test("go on with those that were there last while the store is away, or has something else under the key", async () => {
    const server = await start();
    const [a, b] = [await open(server, "a"), await open(server, "b")];
    a.announce(() => factsOf("edge-1"));
    b.announce(() => factsOf("edge-2"));
    await eventually("both are listed", () => names(a) === "edge-1 edge-2");
    server.cli("SET", key, "something else");
    await b.leave();
    const failed = () => Number(/errorstat_WRONGTYPE:count=(\d+)/.exec(server.cli("INFO", "errorstats"))?.[1] ?? 0);
    const leaving = failed();
    await eventually("the other one has asked in vain, and then again", () => failed() > leaving + 1);
    expect(names(a)).toBe("edge-1 edge-2");
    server.cli("DEL", key);
    await eventually("the other one is gone", () => names(a) === "edge-1");
  });
});
