// What the packages for Linux bring: the unit, the example configuration and the man page. `.ci/artefacts` builds them, and `.ci/deb`
// installs, upgrades and removes the one of Debian.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { manPage } from "../../config/source/man-page.ts";
import { optionText } from "../../src/commands/help.ts";
import { exitCodes, signalExitCodes } from "../../src/commands/io.ts";
import { commandNames, commands } from "../../src/commands/options.ts";
import { loadSettings } from "../../src/config/load.ts";
import { read, root } from "../docs/markdown.ts";

const folder = join(root, "deploy/linux");
const unit = readFileSync(join(folder, "headgate.service"), "utf8");
const ofUnit = (key: string): string[] =>
  [...unit.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, of = ""]) => of);

test("the example configuration opens no port to other machines, and keeps counters where the unit makes a folder", () => {
  const loaded = loadSettings({ file: join(folder, "headgate.yaml"), env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  const { listen, admin, counters, auth } = loaded.settings;
  expect([listen.host, admin.host]).toEqual(["127.0.0.1", "127.0.0.1"]);
  expect(auth.mode).toBe("presence");
  expect(ofUnit("StateDirectory").map((name) => `/var/lib/${name}/counters`)).toEqual([counters.snapshot?.path]);
  expect(ofUnit("RuntimeDirectory").map((name) => `/run/${name}/admin.sock`)).toEqual([admin.socket]);
});

test("the unit gives a drain of the default length its time, and does not restart what a restart cannot correct", () => {
  const loaded = loadSettings({ file: join(folder, "headgate.yaml"), env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  const { delayMs, timeoutMs } = loaded.settings.drain;
  expect(Number(ofUnit("TimeoutStopSec")[0]) * 1000).toBeGreaterThan(delayMs + timeoutMs);
  expect(ofUnit("RestartPreventExitStatus")).toEqual([`${exitCodes.usage} ${exitCodes.config}`]);
});

test("the man page has each command, option and exit code", () => {
  const page = manPage("1.2.3", "2026-11-30").replaceAll("\\-", "-");
  const missing = commandNames.flatMap((name) => {
    const [, section = ""] = page.split(new RegExp(`^\\.SS "headgate ${name} `, "m"));
    const [own = ""] = section.split(/^\.S[SH] /m);
    const expected = [...Object.entries(commands[name].options).map(([option, of]) => optionText(option, of))];
    return [...expected, commands[name].means].filter((text) => !own.includes(text)).map((text) => `${name}: ${text}`);
  });
  expect(missing).toEqual([]);
  const [, status = ""] = page.split(".SH EXIT STATUS");
  const codes = [...status.matchAll(/^\.B "(.*)"$/gm)].flatMap(([, each = ""]) => each.split(", ").map(Number));
  expect(codes.sort()).toEqual([...Object.values(exitCodes), ...Object.values(signalExitCodes)].sort());
});

test("no line of the man page is taken for a request that it is not", () => {
  const requests = manPage("1.2.3", "2026-11-30").match(/^[.'].*/gm) ?? [];
  expect(requests.filter((line) => !/^\.(?:TH|SH|SS|TP|B|PP|nf|fi)\b/.test(line))).toEqual([]);
});

test("the unit runs the command and the configuration that the package installs", () => {
  expect(ofUnit("ExecStart")).toEqual(["/usr/bin/headgate start --config /etc/headgate/headgate.yaml"]);
  expect(read("deploy/linux/deb/headgate")).toContain("HEADGATE_CONFIG-/etc/headgate/headgate.yaml");
});
