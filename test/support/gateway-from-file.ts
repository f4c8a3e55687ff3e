// A gateway of this process with a configuration file, which it can load again.
import type { SignInCode } from "../../src/admin/sign-in-code.ts";
import { settingsSource } from "../../src/commands/load-config.ts";
import { testIo } from "../commands/test-io.ts";
import type { Cleanup } from "./cleanup.ts";
import { startTestGateway, type TestGateway } from "./gateway.ts";

/** `set`: further keys, as with `--set`. */
export async function startFromFile(
  cleanup: Cleanup,
  upstreamUrl: string,
  file: string,
  set: Readonly<Record<string, string>> = {},
  signIn?: SignInCode,
): Promise<TestGateway> {
  const fixed = { "upstream.url": upstreamUrl, "listen.host": "127.0.0.1", "listen.port": "0", "drain.timeout": "1s" };
  const overrides = Object.entries({ ...fixed, ...set }).map(([key, text]) => ({
    ...{ path: key.split("."), text, at: { kind: "command line", option: `--set ${key}` } as const },
  }));
  const source = settingsSource({ file, overrides }, file, testIo());
  const loaded = source.load();
  if (!loaded.ok) throw new Error(loaded.errors.join("\n"));
  return cleanup(await startTestGateway({ upstreamUrl, overrides: loaded.settings, source, signIn }));
}
