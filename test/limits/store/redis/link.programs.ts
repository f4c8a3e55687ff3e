// The link to one real server: what a call is answered, how it fails, and how the link comes back.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis as start } from "../../../support/redis-servers.ts";
import { scratchFolder } from "../../../support/scratch.ts";
import { openWatched, settingsOf } from "./watched-link.ts";

const cleanup = useCleanup();

async function startRedis(...config: string[]): Promise<RedisServer> {
  return cleanup(await start({ config }));
}

test.each([
  ["its server", settingsOf(1), "unreachable 0"],
  [
    "all nodes of its cluster",
    settingsOf(1, { servers: { kind: "cluster", addresses: [{ host: "127.0.0.1", port: 1 }] } }),
    "unreachable null",
  ],
])("a link that cannot reach %s tells each attempt", async (_, settings, expected) => {
  const { failedAttempts } = openWatched(cleanup, settings);
  await eventually("there are several", () => failedAttempts.length > 2);
  expect(new Set(failedAttempts)).toEqual(new Set([expected]));
});

describe.skipIf(skipRedis)(`a call${redisNeeded}`, () => {
  test("is answered with what the script returns, which the server does not know at first", async () => {
    const watched = openWatched(cleanup, settingsOf((await startRedis()).port));
    await watched.connected();
    expect(await watched.call("7")).toEqual({ reply: [1_700_000_000_000_000, 7, "{0}k"], failure: null });
  });

  test("fails as unreachable while there is no connection", async () => {
    const watched = openWatched(cleanup, settingsOf(1));
    const { failure } = await watched.call("7");
    expect(failure?.kind).toBe("unreachable");
    await eventually("a loss is told", () => watched.seen.length > 0);
    expect(watched.seen).toEqual(["unreachable 0"]);
  });

  test("is answered when the server has forgotten the script, as are all that left with it", async () => {
    const server = await startRedis();
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    await watched.call("count");
    server.cli("SCRIPT", "FLUSH");
    const answers = await Promise.all(Array.from({ length: 16 }, () => watched.call("count")));
    expect(answers.map(({ reply }) => reply)).toEqual(Array.from({ length: 16 }, (_, i) => i + 2));
  });

  test("is answered late, after the server went on", async () => {
    const server = await startRedis();
    const watched = openWatched(cleanup, settingsOf(server.port), 200);
    await watched.connected();
    await watched.call("1");
    process.kill(server.pid, "SIGSTOP");
    const late = watched.call("2");
    const sentMs = performance.now();
    await eventually("the time for a connection is over", () => performance.now() > sentMs + 250);
    process.kill(server.pid, "SIGCONT");
    expect((await late).reply).toEqual([1_700_000_000_000_000, 2, "{0}k"]);
  });
});

describe.skipIf(skipRedis)(`a loss${redisNeeded}`, () => {
  test("of a server that restarts fails its calls, which are never sent again", async () => {
    const server = await startRedis();
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    await watched.call("count");
    process.kill(server.pid, "SIGSTOP");
    const lost = watched.call("count");
    await server.kill();
    expect((await lost).failure?.kind).toBe("unreachable");
    await server.restart();
    await watched.connected(2);
    expect((await watched.call("count")).reply).toBe(1);
    expect(watched.seen).toEqual(["connected 0", "unreachable 0", "connected 0"]);
  });

  test("lasts until the server has loaded its data", async () => {
    // Ten keys have a kilobyte, and between two of these the server answers. It loads for 4 s, unless it is told to hurry.
    const server = await startRedis(
      ...["dbfilename counters.rdb", "rdbcompression no"],
      ...["key-load-delay 20000", "loading-process-events-interval-bytes 1024"],
    );
    server.cli("EVAL", "for i = 1, 200 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end", "0");
    server.cli("SAVE");
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    await server.kill();
    const restarted = server.restart();
    const details = new Set<string | undefined>();
    await eventually("it says that it loads", async () => {
      details.add((await watched.call("1")).failure?.detail);
      return [...details].some((detail) => detail?.includes(": LOADING"));
    });
    server.cli("CONFIG", "SET", "key-load-delay", "0");
    await restarted;
    await watched.connected(2);
    expect(watched.seen).toEqual(["connected 0", "unreachable 0", "connected 0"]);
  });

  test("of a black hole is made by reconnect at once", async () => {
    const server = await startRedis();
    const watched = openWatched(cleanup, settingsOf(server.port), 200);
    await watched.connected();
    process.kill(server.pid, "SIGSTOP");
    const lost = watched.call("1");
    // The time for a connection is short: if this process stood still, the first may have been an attempt that took longer.
    const seen = [...watched.seen];
    watched.link.reconnect(0);
    expect((await lost).failure).toEqual({ kind: "unreachable", detail: "nobody answered" });
    await eventually("the loss is told", () => watched.seen.length > seen.length);
    expect(watched.seen).toEqual([...seen, "unreachable 0"]);
    process.kill(server.pid, "SIGCONT");
    await watched.connected(2);
    expect((await watched.call("1")).failure).toBeNull();
  });
});

describe.skipIf(skipRedis)(`failures${redisNeeded}`, () => {
  test("a password that is wrong is refused, and read again", async () => {
    const server = await startRedis("requirepass right");
    const passwordFile = join(scratchFolder(cleanup), "password");
    await writeFile(passwordFile, "wrong\n");
    const watched = openWatched(cleanup, settingsOf(server.port, { passwordFile }));
    await eventually("it is refused", () => watched.seen.length > 0);
    const { failure } = await watched.call("1");
    expect(failure?.kind).toBe("refused");
    expect(failure?.detail).not.toContain("wrong");
    await writeFile(passwordFile, "right\n");
    await watched.connected();
    expect(watched.seen).toEqual(["refused 0", "connected 0"]);
  });

  test("each kind of error is named", async () => {
    const server = await startRedis();
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    await watched.call("set", "text");
    expect((await watched.call("push")).failure).toMatchObject({ kind: "failed" });
    server.cli("SCRIPT", "FLUSH");
    expect((await watched.call("1")).failure).toBeNull();
    server.cli("CONFIG", "SET", "maxmemory", "1");
    expect((await watched.call("set", "x")).failure?.kind).toBe("full");
    server.cli("CONFIG", "SET", "maxmemory", "0");
    server.cli("ACL", "SETUSER", "default", "-evalsha");
    expect((await watched.call("1")).failure?.kind).toBe("refused");
    server.cli("ACL", "SETUSER", "default", "+evalsha");
    server.cli("REPLICAOF", "127.0.0.1", "1");
    expect((await watched.call("set", "x")).failure?.kind).toBe("unready");
    await eventually("it is told", () => watched.seen.length === 2);
    expect((await watched.call("1")).failure?.kind).toBe("unready");
    server.cli("REPLICAOF", "NO", "ONE");
    await watched.connected(2);
    expect(watched.seen).toEqual(["connected 0", "unready 0", "connected 0"]);
  });
});

test.skipIf(skipRedis)(`a server is identified, with what its operator should change${redisNeeded}`, async () => {
  const server = await startRedis();
  const watched = openWatched(cleanup, settingsOf(server.port));
  await watched.connected();
  const { identity } = await watched.identify();
  expect(identity?.server).toMatch(/^(Redis|Valkey) \d+\.\d+\S* at 127\.0\.0\.1:\d+$/);
  expect(identity?.evictedKeys).toBe(0);
  expect(identity?.warnings).toEqual(["it has no persistence and no replica: a restart forgets what was counted"]);
  server.cli("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru", "save", "3600 1");
  const changed = (await watched.identify()).identity;
  expect(changed?.warnings).toEqual(["maxmemory-policy is allkeys-lru: it can forget quotas"]);
  expect(changed?.epoch).toBe(identity?.epoch);
});
