// The link over real sentinels: it finds the primary, follows a promotion, and leaves a primary that was replaced.
import { describe, expect, test } from "vitest";
import type { StoreConnectionSettings } from "../../../../src/core/store-link.ts";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import {
  type RedisWithSentinels,
  redisNeeded,
  skipRedis,
  startRedisWithSentinels,
} from "../../../support/redis-servers.ts";
import { openWatched, settingsOf } from "./watched-link.ts";

const cleanup = useCleanup();

async function startAll(): Promise<RedisWithSentinels> {
  const all = await startRedisWithSentinels();
  cleanup(() => all.stop());
  return all;
}

function settingsFor({ name, sentinels }: RedisWithSentinels): StoreConnectionSettings {
  const addresses = sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
  return { ...settingsOf(1), servers: { kind: "sentinels", name, addresses } };
}

describe.skipIf(skipRedis)(`sentinels${redisNeeded}`, () => {
  test("a primary that dies is followed by the one that is promoted", async () => {
    const all = await startAll();
    const watched = openWatched(cleanup, settingsFor(all));
    await watched.connected();
    const before = (await watched.identify()).identity;
    await all.servers[0]?.kill();
    await watched.connected(2);
    expect(watched.seen).toEqual(["connected 0", "unreachable 0", "connected 0"]);
    expect((await watched.call("count")).reply).toBe(1);
    expect((await watched.identify()).identity?.epoch).not.toBe(before?.epoch);
  });

  test("a primary that is stopped and comes back is left for the promoted one", async () => {
    const all = await startAll();
    const [primary, replica] = all.servers;
    const watched = openWatched(cleanup, settingsFor(all));
    await watched.connected();
    process.kill(primary?.pid ?? 0, "SIGSTOP");
    cleanup(() => process.kill(primary?.pid ?? 0, "SIGCONT"));
    await eventually("the replica is promoted", () => all.primaryPort() === replica?.port, 20_000);
    await watched.connected(2);
    expect((await watched.call("count")).reply).toBe(1);
    expect(replica?.cli("GET", "{0}k")).toBe("1");
    expect(watched.seen).toEqual(["connected 0", "unready 0", "connected 0"]);
  });

  test("two of three sentinels are enough", async () => {
    const all = await startAll();
    await all.sentinels[0]?.kill();
    const watched = openWatched(cleanup, settingsFor(all));
    await watched.connected();
    expect(watched.seen).toEqual(["connected 0"]);
  });

  test("a name that no sentinel knows is said", async () => {
    const all = await startAll();
    const watched = openWatched(cleanup, { ...settingsFor({ ...all, name: "other" }) });
    await eventually("it is told", () => watched.seen.length > 0);
    expect((await watched.call("1")).failure).toEqual({
      kind: "failed",
      detail: "sentinel: ERR No such master with that name",
    });
  });
});
