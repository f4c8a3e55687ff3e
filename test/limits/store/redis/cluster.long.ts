// The link over a real cluster: each tag goes to the shard that has its slot, while primaries die and slots move.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import type { StoreConnectionSettings } from "../../../../src/core/store-link.ts";
import { slotOf } from "../../../../src/limits/store/redis/cluster.ts";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import { type RedisCluster, redisNeeded, skipRedis, startRedisCluster } from "../../../support/redis-servers.ts";
import { openWatched, settingsOf, type WatchedLink } from "./watched-link.ts";

const cleanup = useCleanup();
const run = promisify(execFile);

async function startAll(): Promise<RedisCluster> {
  return cleanup(await startRedisCluster());
}

function settingsFor({ servers }: RedisCluster): StoreConnectionSettings {
  const addresses = servers.slice(0, 2).map(({ port }) => ({ host: "127.0.0.1", port }));
  return { ...settingsOf(1), servers: { kind: "cluster", addresses } };
}

async function count(watched: WatchedLink, tag: string): Promise<unknown> {
  const { reply, failure } = await watched.callOn(watched.link.shardOf(tag), `{${tag}}k`, "count");
  return failure?.kind ?? reply;
}

describe.skipIf(skipRedis)(`a cluster${redisNeeded}`, () => {
  test("each tag is counted by the shard that has its slot", async () => {
    const cluster = await startAll();
    const watched = openWatched(cleanup, settingsFor(cluster));
    await watched.connected(3);
    expect(watched.link.shards).toEqual([0, 1, 2]);
    for (const shard of watched.link.shards) {
      const tag = watched.link.anyTagOf(shard) ?? "none";
      expect(watched.link.shardOf(tag)).toBe(shard);
      expect(await count(watched, tag)).toBe(1);
    }
    const tag = "a0123456789abcdef";
    expect(String(slotOf(tag))).toBe(cluster.servers[0]?.cli("CLUSTER", "KEYSLOT", `x{${tag}}y`));
  });

  test("a primary that dies is gone, and the promoted replica is another shard", async () => {
    const cluster = await startAll();
    const watched = openWatched(cleanup, settingsFor(cluster));
    await watched.connected(3);
    const tag = "0";
    const old = watched.link.shardOf(tag);
    expect(await count(watched, tag)).toBe(1);
    const owner = cluster.servers.find((server) => server.cli("GET", `{${tag}}k`) === "1");
    await owner?.kill();
    await eventually("the loss is told", () => watched.seen.includes(`unreachable ${old}`));
    expect(await count(watched, tag)).toBe("unreachable");
    await watched.connected(4);
    expect(watched.seen.slice(3)).toEqual([`unreachable ${old}`, `gone ${old}`, "connected 3"]);
    expect(watched.link.shardOf(tag)).toBe(3);
    expect([...watched.link.shards].sort()).toEqual([0, 1, 2, 3].filter((shard) => shard !== old));
    expect(await count(watched, tag)).toBe(2);
  });

  test("a slot that moves takes its calls with it: asked, moved, and then known", async () => {
    const cluster = await startAll();
    const watched = openWatched(cleanup, settingsFor(cluster));
    await watched.connected(3);
    const tag = "0";
    const slot = String(slotOf(tag));
    expect(await count(watched, tag)).toBe(1);
    const primaries = cluster.servers.slice(0, 3);
    const from = primaries.find((server) => server.cli("GET", `{${tag}}k`) === "1");
    const to = primaries.find((server) => server !== from);
    if (from === undefined || to === undefined) throw new Error("nobody has the slot");
    to.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", from.cli("CLUSTER", "MYID"));
    from.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", to.cli("CLUSTER", "MYID"));
    from.cli("MIGRATE", "127.0.0.1", String(to.port), `{${tag}}k`, "0", "1000");
    expect(await count(watched, tag)).toBe(2);
    const [before] = [watched.link.shardOf(tag)];
    for (const server of [to, from]) server.cli("CLUSTER", "SETSLOT", slot, "NODE", to.cli("CLUSTER", "MYID"));
    expect(await count(watched, tag)).toBe(3);
    await eventually("the map is read again", () => watched.link.shardOf(tag) !== before);
    expect(await count(watched, tag)).toBe(4);
    expect([...watched.seen].sort()).toEqual(["connected 0", "connected 1", "connected 2"]);
  });

  test("slots that move under load lose no call and repeat none", async () => {
    const cluster = await startAll();
    const watched = openWatched(cleanup, settingsFor(cluster));
    await watched.connected(3);
    const tags = Array.from({ length: 200 }, (_, i) => `t${i}`);
    const counted = new Map(tags.map((tag) => [tag, 0]));
    const failures = new Set<unknown>();
    let isMoving = true;
    const load = tags.map(async (tag) => {
      while (isMoving) {
        const outcome = await count(watched, tag);
        if (typeof outcome === "number") counted.set(tag, (counted.get(tag) ?? 0) + 1);
        else failures.add(outcome);
      }
    });
    const ids = cluster.servers.slice(0, 2).map((server) => server.cli("CLUSTER", "MYID"));
    const [first] = cluster.servers;
    const reshard = ["--cluster", "reshard", `127.0.0.1:${first?.port}`, "--cluster-from", ids[0] ?? ""];
    const more = ["--cluster-to", ids[1] ?? "", "--cluster-slots", "300", "--cluster-yes"];
    await run("redis-cli", [...reshard, ...more], { maxBuffer: 16 * 1024 * 1024 });
    isMoving = false;
    await Promise.all(load);
    await eventually("every tag is counted again", async () => {
      const outcomes = await Promise.all(tags.map((tag) => count(watched, tag)));
      for (const [i, outcome] of outcomes.entries()) {
        const tag = tags[i] ?? "";
        if (typeof outcome === "number") counted.set(tag, (counted.get(tag) ?? 0) + 1);
      }
      return outcomes.every((outcome) => typeof outcome === "number");
    });
    for (const tag of tags) expect(await count(watched, tag)).toBe((counted.get(tag) ?? 0) + 1);
    expect([...failures].filter((kind) => kind !== "unready")).toEqual([]);
  });

  test("nothing is left after close, also while a primary is away", async () => {
    const cluster = await startAll();
    const watched = openWatched(cleanup, settingsFor(cluster));
    await watched.connected(3);
    await cluster.servers[0]?.kill();
    await watched.link.close();
    await eventually("no socket is left", () => !process.getActiveResourcesInfo().includes("TCPSocketWrap"));
  });
});
