// `headgate check --online` with real servers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { checkStore } from "../../src/gateway/check-store.ts";
import { read } from "../docs/markdown.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { scratchFolder } from "../support/scratch.ts";
import { sharedCounters } from "../support/shared-settings.ts";
import { headgate } from "./command-process.ts";

const cleanup = useCleanup();

async function check(
  redis: string,
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const folder = scratchFolder(onTestFinished);
  writeFileSync(join(folder, "c.yaml"), `counters: { store: redis, redis: ${redis} }\n`);
  const ran = headgate(["check", "--config", join(folder, "c.yaml"), "--online"]);
  const code = await ran.exited;
  return { code, out: ran.output.out.match(/^online: .*$/gm)?.join("\n") ?? "", err: ran.output.err };
}

describe.skipIf(skipRedis)(`check --online${redisNeeded}`, () => {
  test("says that a server can be used, and what is wrong with it, and leaves no counter behind", async () => {
    const server = cleanup(await startRedis({ config: ['save ""'] }));
    const { code, out, err } = await check(`{ url: "redis://127.0.0.1:${server.port}" }`);
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^online: (Redis|Valkey) [\\d.]+ at 127\\.0\\.0\\.1:${server.port} can be used$`));
    expect(err).toMatch(/^warning: .* it has no persistence and no replica: a restart forgets what was counted$/m);
    // DBSIZE also counts keys that have expired and are not removed yet.
    const keys = () =>
      server
        .cli("KEYS", "*")
        .split("\n")
        .filter((key) => key !== "");
    await eventually("its counters have expired", () => keys().length === 1);
    const [left = ""] = keys();
    expect([left.endsWith("/gateways"), Number(server.cli("TTL", left)) > 0]).toEqual([true, true]);
  });

  test("names a missing permission for its keys", async () => {
    const server = cleanup(await startRedis());
    server.cli("ACL", "SETUSER", "default", "resetkeys");
    const { code, out, err } = await check(`{ url: "redis://127.0.0.1:${server.port}" }`);
    expect([code, out]).toEqual([exitCodes.unavailable, ""]);
    expect(err).toMatch(/^counters\.redis: .*NOPERM.*key/m);
  });

  test("names each command that the user in the docs may not run", async () => {
    const server = cleanup(await startRedis());
    const folder = scratchFolder(onTestFinished);
    const passwordFile = join(folder, "password");
    writeFileSync(passwordFile, "change-me");
    const [, rules = ""] = /^user headgate (on .*)$/m.exec(read("docs/store.md")) ?? [];
    const listed = [...rules.matchAll(/ \+(\S+)/g)].map(([, command = ""]) => command);
    const optional = ["ping", "role", "config|get"];
    const ofTheLog = listed.slice(listed.indexOf("hget"));
    expect(ofTheLog.length).toBeGreaterThan(3);
    for (const command of ["nothing", ...listed]) {
      server.cli("SCRIPT", "FLUSH");
      server.cli("ACL", "SETUSER", "headgate", "reset", ...rules.split(" ").filter((rule) => rule !== `+${command}`));
      const { redis } = sharedCounters(server.port);
      if (redis === null) throw new Error("no store");
      const connection = { ...redis.connection, database: 1, username: "headgate", passwordFile };
      const found = await checkStore({ ...redis, connection });
      const isNamed = new RegExp(`['(]${command.replace("|", "\\|")}[')]`, "i");
      const said = found.filter(({ text }) => isNamed.test(text)).map(({ kind }) => kind);
      const isNeeded = command !== "nothing" && !optional.includes(command);
      expect([command, said]).toEqual([command, isNeeded ? [ofTheLog.includes(command) ? "warning" : "missing"] : []]);
      expect(found.some(({ kind }) => kind === "usable")).toBe(!said.includes("missing"));
    }
  });

  test("says what kind of server is asked, and which one has not answered", async () => {
    const [node, silent] = await Promise.all([startRedis({ config: ["cluster-enabled yes"] }), startRedis()]);
    for (const server of [node, silent]) cleanup(() => server.stop());
    node.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    const clustered = await check(`{ url: "redis://127.0.0.1:${node.port}" }`);
    expect(clustered.err).toMatch(/: CROSSSLOT .* \(it belongs to a cluster: see counters\.redis\.cluster\)$/m);
    silent.cli("CLIENT", "PAUSE", "60000", "WRITE");
    const paused = await check(`{ url: "redis://127.0.0.1:${silent.port}" }`);
    expect(paused.err).toMatch(/^counters\.redis: \S+ \S+ at 127\.0\.0\.1:\d+: nobody answered$/m);
    expect([clustered.code, paused.code]).toEqual([exitCodes.unavailable, exitCodes.unavailable]);
  });

  test("a server or sentinels that nobody reaches are missing", async () => {
    const port = await freePort();
    for (const where of [
      `url: "redis://127.0.0.1:${port}"`,
      `sentinels: { name: a, addresses: ["127.0.0.1:${port}"] }`,
    ]) {
      const { code, err } = await check(`{ ${where} }`);
      expect(code).toBe(exitCodes.unavailable);
      expect(err).toMatch(/^counters\.redis: (sentinel: )?127\.0\.0\.1:\d+: ECONNREFUSED$/m);
    }
  });
});
