// Which protocols can be named for an Upgrade: none inside of which requests would pass uncounted.
import { expect, test } from "vitest";
import { loadSettings, packagedConfigFile } from "../../src/config/load.ts";

const load = (protocols: string) =>
  loadSettings({ file: packagedConfigFile, env: { HEADGATE_UPGRADE_PROTOCOLS: protocols }, cwd: ".", overrides: [] });

test("names are taken in any case, with a version or without", () => {
  const loaded = load("WebSocket,irc/6.9,x-mine");
  expect(loaded.ok && loaded.settings.upgrade.protocols).toEqual(["websocket", "irc/6.9", "x-mine"]);
});

test.each(["h2c", "H2C", "h2", "h3", "HTTP/2.0", "http", "TLS/1.0", "tls", "a b", "a/b/c", "é"])(
  "%s is refused",
  (name) => {
    const loaded = load(`websocket,${name}`);
    expect(loaded.ok).toBe(false);
  },
);
