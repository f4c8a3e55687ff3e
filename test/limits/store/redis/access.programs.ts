// Who the gateway is to the store, and the store to the gateway: users with few permissions, and certificates.
import dns from "node:dns";
import { mkdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import tlsModule from "node:tls";
import { describe, expect, test, vi } from "vitest";
import type { StoreConnectionSettings } from "../../../../src/core/store-link.ts";
import { Authority } from "../../../support/certificates.ts";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually } from "../../../support/eventually.ts";
import { freePort } from "../../../support/free-port.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../../support/redis-servers.ts";
import { scratchFolder } from "../../../support/scratch.ts";
import { openWatched, settingsOf } from "./watched-link.ts";

const cleanup = useCleanup();

async function start(...config: string[]): Promise<RedisServer> {
  return cleanup(await startRedis({ config }));
}

describe.skipIf(skipRedis)(`users${redisNeeded}`, () => {
  test("one who may only run the script does, and is not identified", async () => {
    const server = await start("user gate on >secret ~{0}* +evalsha +script|load +incr +lpush");
    const passwordFile = join(scratchFolder(cleanup), "password");
    await writeFile(passwordFile, "secret\r\n");
    const watched = openWatched(cleanup, settingsOf(server.port, { username: "gate", passwordFile, database: 0 }));
    await watched.connected();
    expect((await watched.call("count")).reply).toBe(1);
    expect((await watched.callOn(0, "other", "count")).failure?.kind).toBe("refused");
    expect((await watched.identify()).failure?.kind).toBe("refused");
    server.cli("ACL", "SETUSER", "gate", "+info");
    expect((await watched.identify()).identity?.server).toContain(" ");
  });

  test("a database that is none is said, and no password file is too", async () => {
    const server = await start();
    const watched = openWatched(cleanup, settingsOf(server.port, { database: 99 }));
    await eventually("it is told", () => watched.seen.length > 0);
    const detail = `127.0.0.1:${server.port}: ERR DB index is out of range`;
    expect((await watched.call("1")).failure).toEqual({ kind: "failed", detail });
    const other = openWatched(cleanup, settingsOf(server.port, { passwordFile: "/nowhere/password" }));
    await eventually("it is told", () => other.seen.length > 0);
    expect((await other.call("1")).failure?.detail).toMatch(/: the password file cannot be read: ENOENT$/);
  });

  test("a database is chosen", async () => {
    const server = await start();
    const watched = openWatched(cleanup, settingsOf(server.port, { database: 3 }));
    await watched.connected();
    await watched.call("count");
    expect(server.cli("-n", "3", "GET", "{0}k")).toBe("1");
  });
});

describe.skipIf(skipRedis)(`servers that lack a command${redisNeeded}`, () => {
  test.each(["role", "config", "script"])("one without %s counts", async (command) => {
    const server = await start(`rename-command ${command} ""`);
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    expect((await watched.call("count")).reply).toBe(1);
    expect((await watched.call("count")).reply).toBe(2);
    expect((await watched.identify()).identity?.server).toContain(" ");
  });

  test.each([[[]], [["rename-command role zz"]]])("a replica that takes writes is no primary, %j", async (more) => {
    const primary = await start();
    const replica = await start(`replicaof 127.0.0.1 ${primary.port}`, "replica-read-only no", ...more);
    const watched = openWatched(cleanup, settingsOf(replica.port));
    await eventually("it is told", () => watched.seen.length > 0);
    const detail = `127.0.0.1:${replica.port}: the server is a replica`;
    expect((await watched.call("count")).failure).toEqual({ kind: "unready", detail });
  });

  test.each([
    ["evalsha", "call"],
    ["info", "identify"],
  ] as const)("one without %s is not usable, and the reason names the command", async (command, step) => {
    const server = await start(`rename-command ${command} ""`);
    const watched = openWatched(cleanup, settingsOf(server.port));
    await watched.connected();
    const { failure } = step === "call" ? await watched.call("count") : await watched.identify();
    expect(failure).toMatchObject({ kind: "failed", detail: expect.stringContaining(`unknown command '${command}'`) });
  });
});

test.skipIf(skipRedis)(`a server that cannot save takes no writes, and is away at once${redisNeeded}`, async () => {
  const server = await start();
  const watched = openWatched(cleanup, settingsOf(server.port));
  await watched.connected();
  // A folder is in the place of the file.
  const folder = server.cli("CONFIG", "GET", "dir").split("\n")[1] ?? "";
  mkdirSync(join(folder, "dump.rdb", "full"), { recursive: true });
  server.cli("CONFIG", "SET", "save", "3600 1");
  server.cli("SET", "a", "b");
  server.cli("BGSAVE");
  const hasFailed = () => server.cli("INFO", "persistence").includes("rdb_last_bgsave_status:err");
  await eventually("it could not save", hasFailed);
  expect((await watched.call("1")).failure).toBeNull();
  expect((await watched.call("count")).failure?.kind).toBe("unready");
});

describe.skipIf(skipRedis)(`TLS${redisNeeded}`, () => {
  const lines = (tlsPort: number, { certFile, keyFile }: { certFile: string; keyFile: string }, caFile: string) => [
    `tls-port ${tlsPort}`,
    `tls-cert-file ${certFile}`,
    `tls-key-file ${keyFile}`,
    `tls-ca-cert-file ${caFile}`,
  ];
  type Found = (error: null, addresses: readonly dns.LookupAddress[]) => void;
  type Tls = NonNullable<StoreConnectionSettings["tls"]>;

  test("both sides show a certificate, and the server's is verified", async () => {
    const authority = new Authority(cleanup);
    const port = await freePort();
    const server = authority.issue({ names: ["DNS:store.example"] });
    await start(...lines(port, server, authority.certFile));
    const own = authority.issue();
    const shown: Tls = { caFile: authority.certFile, certFile: own.certFile, keyFile: own.keyFile, serverName: null };

    for (const [i, serverName] of ["store.example", "store.example."].entries()) {
      const good = openWatched(cleanup, settingsOf(port, { tls: { ...shown, serverName } }));
      await good.connected();
      expect((await good.call("count")).reply).toBe(i + 1);
    }

    const failure = async (tls: Tls): Promise<unknown> => {
      const watched = openWatched(cleanup, settingsOf(port, { tls }));
      await eventually("it is told", () => watched.seen.length > 0);
      expect(watched.seen[0]).toBe("unreachable 0");
      return (await watched.call("1")).failure?.detail;
    };
    expect(await failure(shown)).toBe(`127.0.0.1:${port}: ERR_TLS_CERT_ALTNAME_INVALID`);
    expect(await failure({ ...shown, caFile: null, serverName: "store.example" })).toMatch(/SELF_SIGNED|UNABLE_TO/);
    expect(await failure({ ...shown, certFile: null, keyFile: null, serverName: "store.example" })).toBeTruthy();
  });

  test("a name with a final dot is the name in the certificate, without it", async () => {
    const authority = new Authority(cleanup);
    const port = await freePort();
    await start(
      ...lines(port, authority.issue({ names: ["DNS:store.example"] }), authority.certFile),
      "tls-auth-clients no",
    );
    const asked = vi.spyOn(dns, "lookup").mockImplementation(((_name: string, _options: unknown, done: Found) => {
      // The first one is for documentation: nobody is there.
      done(null, [
        { address: "2001:db8::1", family: 6 },
        { address: "127.0.0.1", family: 4 },
      ]);
    }) as unknown as typeof dns.lookup);
    cleanup(() => asked.mockRestore());
    const tls: Tls = { caFile: authority.certFile, certFile: null, keyFile: null, serverName: null };
    const servers = { kind: "one" as const, address: { host: "store.example.", port } };
    const watched = openWatched(cleanup, settingsOf(port, { servers, tls }));
    await watched.connected();
    expect((await watched.call("count")).reply).toBe(1);
    expect(asked.mock.calls[0]?.[0]).toBe("store.example.");
  });

  test("files that have become unusable are told, and the connection is made once they are good again", async () => {
    const authority = new Authority(cleanup);
    const port = await freePort();
    await start(...lines(port, authority.issue(), authority.certFile));
    const [own, other] = [authority.issue(), authority.issue()];
    const keyFile = authority.write("changing.pem", other.key);
    const tls: Tls = { caFile: authority.certFile, certFile: own.certFile, keyFile, serverName: null };
    const watched = openWatched(cleanup, settingsOf(port, { tls }));
    await eventually("it is told", () => watched.failedAttempts.length > 0);
    expect((await watched.call("1")).failure).toEqual({
      kind: "refused",
      detail: `127.0.0.1:${port}: the files for TLS cannot be used: ERR_OSSL_X509_KEY_VALUES_MISMATCH`,
    });
    authority.write("changing.pem", own.key);
    await watched.connected();
    expect((await watched.call("count")).reply).toBe(1);
  });

  test("all connections have one context, until a file has changed", async () => {
    const authority = new Authority(cleanup);
    const port = await freePort();
    const server = await start(...lines(port, authority.issue(), authority.certFile), "tls-auth-clients no");
    const caFile = authority.write("ca.pem", authority.cert);
    const created = vi.spyOn(tlsModule, "createSecureContext");
    syncBuiltinESMExports();
    cleanup(() => {
      created.mockRestore();
      syncBuiltinESMExports();
    });
    const tls: Tls = { caFile, certFile: null, keyFile: null, serverName: null };
    const watched = openWatched(cleanup, settingsOf(port, { tls }));
    const again = async (times: number): Promise<void> => {
      server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await watched.connected(times);
    };
    await watched.connected();
    await again(2);
    expect(created).toHaveBeenCalledTimes(1);
    authority.write("ca.pem", `${authority.cert}${authority.cert}`);
    await again(3);
    expect(created).toHaveBeenCalledTimes(2);
  });
});
