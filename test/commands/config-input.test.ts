// A configuration from standard input: read once, named in errors, never watched, and not read again.
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { run as check } from "../../src/commands/check.ts";
import { maxFileBytes } from "../../src/config/load.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { startUpstream } from "../support/upstream.ts";
import { testIo } from "./test-io.ts";

const cleanup = useCleanup();
const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

async function checked(input: string, env: Record<string, string> = {}, file: string | undefined = "-") {
  const io = testIo({ input, env });
  const code = await check({ file, overrides: [] }, io);
  return { code, out: io.outText(), err: io.errText() };
}

describe("check --config -", () => {
  test("reads standard input", async () => {
    const { code, out, err } = await checked("policies: [{ name: small, limit: 7, window: 1m }]\n");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^standard input: ok\n/);
    expect(out).toContain("policies: [ { name: small, limit: 7, window: 1m } ]");
  });

  test("so does HEADGATE_CONFIG with a hyphen", async () => {
    const io = testIo({ input: "listen: { port: 81 }\n", env: { HEADGATE_CONFIG: "-" } });
    expect(await check({ file: undefined, overrides: [] }, io)).toBe(0);
    expect(io.outText()).toContain("port: 81");
  });

  test.each([
    ["", "standard input: found no key, expected a configuration; write {} for one with all defaults\n"],
    ["listen:\n  prot: 80\n", 'standard input:2:3: listen.prot: unknown key; did you mean "listen.port"?\n'],
    ["a".repeat(maxFileBytes + 1), "standard input: found more than 256 KiB, expected a configuration\n"],
  ])("says what is wrong in it, and where", async (input, message) => {
    expect(await checked(input)).toEqual({ code: 78, out: "", err: message });
  });
});

test("start --config - serves, and a SIGHUP says that it cannot be read again and changes nothing", async () => {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const yaml = [
    `upstream: { url: "${upstream.url}" }`,
    "listen: { host: 127.0.0.1, port: 0 }",
    "admin: { port: 0 }",
    "policies: [{ name: small, limit: 7, window: 1m }]",
  ].join("\n");
  const script = `exec "$0" "$1" start --config - <<'END'\n${yaml}\nEND`;
  const { child, end, exited } = startProcessGroup("/bin/sh", ["-c", script, process.execPath, main]);
  cleanup(end);
  let out = "";
  child.stdout.on("data", (data: Buffer) => {
    out += data.toString();
  });
  const port = () => /"listener":"traffic","host":"[^"]+","port":(\d+)/.exec(out)?.[1];
  const limit = async (): Promise<string | null> => {
    const answer = await fetch(`http://127.0.0.1:${port()}/v2/x`, { headers: { authorization: "Bearer t" } });
    return answer.headers.get("ratelimit-limit");
  };
  await eventually("it listens", () => port() !== undefined, 15_000);
  expect(await limit()).toBe("7");
  child.kill("SIGHUP");
  await eventually("the reload is over", () => out.includes("reload failed, the configuration is not changed"));
  expect(out).toContain(
    "the configuration was read from standard input, which is read once; restart with the new one, or name a file in --config",
  );
  expect(await limit()).toBe("7");
  child.kill("SIGTERM");
  expect((await exited).code).toBe(0);
});
