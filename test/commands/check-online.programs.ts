// `headgate check --online` with real servers.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { headgate } from "./command-process.ts";

const cleanup = useCleanup();

async function check(
  redis: string,
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-online-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "c.yaml"), `counters: { store: redis, redis: ${redis} }\n`);
  const ran = headgate(["check", "--config", join(folder, "c.yaml"), "--online"]);
  const code = await ran.exited;
  return { code, out: ran.output.out.match(/^online: .*$/gm)?.join("\n") ?? "", err: ran.output.err };
}

describe.skipIf(skipRedis)(`check --online${redisNeeded}`, () => {
  test("says that a server can be used, and what is wrong with it, and leaves no counter behind", async () => {
    const server = await startRedis({ config: ['save ""'] });
    cleanup(() => server.stop());
    const { code, out, err } = await check(`{ url: "redis://127.0.0.1:${server.port}" }`);
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^online: (Redis|Valkey) [\\d.]+ at 127\\.0\\.0\\.1:${server.port} can be used$`));
    expect(err).toMatch(/^warning: .* it has no persistence and no replica: a restart forgets what was counted$/m);
    const counters = () =>
      server
        .cli("KEYS", "*")
        .split("\n")
        .filter((key) => key !== "" && !key.endsWith("/gateways"));
    await eventually("its counters have expired", () => counters().length === 0);
    expect(server.cli("DBSIZE").trim()).toBe("1");
    expect(Number(server.cli("TTL", server.cli("KEYS", "*").trim()))).toBeGreaterThan(0);
  });

  test.each([
    [
      "a command of the script that the user may not run",
      "-zrevrangebyscore",
      /^counters\.redis: .*can't run this command/m,
    ],
    ["one that the gateway needs", "-info", /^counters\.redis: the store: NOPERM .*'info'/m],
    ["the keys", "resetkeys", /^counters\.redis: .*NOPERM.*key/m],
  ])("names what is missing: %s", async (_, rule, line) => {
    const server = await startRedis();
    cleanup(() => server.stop());
    server.cli("ACL", "SETUSER", "default", rule);
    const { code, out, err } = await check(`{ url: "redis://127.0.0.1:${server.port}" }`);
    expect([code, out]).toEqual([exitCodes.unavailable, ""]);
    expect(err).toMatch(line);
  });

  test("a server or sentinels that nobody reaches are missing", async () => {
    const port = await freePort();
    for (const where of [
      `url: "redis://127.0.0.1:${port}"`,
      `sentinels: { name: a, addresses: ["127.0.0.1:${port}"] }`,
    ]) {
      const { code, err } = await check(`{ ${where} }`);
      expect(code).toBe(exitCodes.unavailable);
      expect(err).toMatch(/^counters\.redis: the store: (sentinel: )?ECONNREFUSED$/m);
    }
  });
});
