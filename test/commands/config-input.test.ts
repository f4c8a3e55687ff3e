// A configuration from standard input is checked, and named in errors.
import { describe, expect, test } from "vitest";
import { run as check } from "../../src/commands/check.ts";
import { maxFileBytes } from "../../src/config/load.ts";
import { testIo } from "./test-io.ts";

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
