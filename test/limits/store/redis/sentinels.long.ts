// The link over real sentinels: it finds the primary, follows a promotion, and leaves a primary that was replaced.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
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
import { scratchFolder } from "../../../support/scratch.ts";
import { openWatched, settingsOf } from "./watched-link.ts";

const cleanup = useCleanup();

async function startAll(): Promise<RedisWithSentinels> {
  return cleanup(await startRedisWithSentinels());
}

function settingsFor({ name, sentinels }: RedisWithSentinels): StoreConnectionSettings {
  const addresses = sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
  return { ...settingsOf(1), servers: { kind: "sentinels", name, addresses, user: nobody } };
}

const nobody = { username: null, passwordFile: null };

/** A file with a password in it. */
function fileWith(password: string): string {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "password");
  writeFileSync(file, `${password}\n`);
  return file;
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

  test("a name that no sentinel knows is said, and that a sentinel has no keys", async () => {
    const all = await startAll();
    const direct = openWatched(cleanup, settingsOf(all.sentinels[0]?.port ?? 0));
    await eventually("it is told", () => direct.seen.length > 0);
    expect((await direct.call("1")).failure?.detail).toMatch(/: the server is a sentinel$/);
    const watched = openWatched(cleanup, { ...settingsFor({ ...all, name: "other" }) });
    await eventually("it is told", () => watched.seen.length > 0);
    expect((await watched.call("1")).failure).toEqual({
      kind: "failed",
      detail: expect.stringMatching(/^sentinel: 127\.0\.0\.1:\d+: ERR No such master with that name$/),
    });
  });

  test.each([
    [
      "the default user with a password of its own",
      ["default", "resetpass", ">s3"],
      { username: null, password: "s3" },
    ],
    ["a user of its own", ["watcher", "on", ">s4", "+@all"], { username: "watcher", password: "s4" }],
  ])("a sentinel asks for %s, and the store for another one", async (_, user, { username, password }) => {
    const all = await startAll();
    for (const server of all.servers) server.cli("ACL", "SETUSER", "headgate", "on", ">p", "~*", "+@all");
    for (const sentinel of all.sentinels) {
      sentinel.cli("ACL", "SETUSER", ...user);
      if (username !== null) sentinel.cli("ACL", "SETUSER", "default", "off");
    }
    const settings = { ...settingsFor(all), username: "headgate", passwordFile: fileWith("p") };
    const { servers } = settings;
    if (servers.kind !== "sentinels") throw new Error("not by sentinels");
    const wrong = openWatched(cleanup, {
      ...settings,
      servers: { ...servers, user: { ...nobody, passwordFile: fileWith("p") } },
    });
    await eventually("it is told", () => wrong.seen.length > 0);
    expect((await wrong.call("1")).failure).toMatchObject({
      kind: "refused",
      detail: expect.stringMatching(/^sentinel: /),
    });
    const right = openWatched(cleanup, {
      ...settings,
      servers: { ...servers, user: { username, passwordFile: fileWith(password) } },
    });
    await right.connected();
    expect((await right.call("count")).reply).toBe(1);
  });
});
