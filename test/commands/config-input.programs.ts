// A configuration from standard input is read once, never watched, and not read again.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startUpstream } from "../support/upstream.ts";
import { main, portOf, run } from "./command-process.ts";

const cleanup = useCleanup();

test("start --config - serves, and a SIGHUP says that it cannot be read again and changes nothing", async () => {
  const upstream = cleanup(await startUpstream());
  const yaml = [
    `upstream: { url: "${upstream.url}" }`,
    "listen: { host: 127.0.0.1, port: 0 }",
    "admin: { port: 0 }",
    "policies: [{ name: small, limit: 7, window: 1m }]",
  ].join("\n");
  const script = `exec "$0" "$1" start --config - <<'END'\n${yaml}\nEND`;
  const started = run("/bin/sh", ["-c", script, process.execPath, main]);
  const { process: child, output, exited } = started;
  const port = await portOf(started, "traffic");
  const limit = async (): Promise<string | null> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v2/x`, { headers: { authorization: "Bearer t" } });
    return answer.headers.get("ratelimit-limit");
  };
  expect(await limit()).toBe("7");
  child.kill("SIGHUP");
  await eventually("the reload is over", () => output.out.includes("reload failed, the configuration is not changed"));
  expect(output.out).toContain(
    "the configuration was read from standard input, which is read once; restart with the new one, or name a file in --config",
  );
  expect(await limit()).toBe("7");
  child.kill("SIGTERM");
  expect(await exited).toBe(0);
});
