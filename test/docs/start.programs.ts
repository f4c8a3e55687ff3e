// docs/start.md as a new user follows it: each command in its order, with what the page shows of the output, and the example for
// an API of one's own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Run, run } from "../commands/command-process.ts";
import { isInstalled } from "../conformance/fuzz/backends/backend.ts";
import { useCleanup } from "../support/cleanup.ts";
import { freePort } from "../support/free-port.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { metric } from "../support/metrics.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { codeBlocks, read, root } from "./markdown.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;

/** What the page has a user leave running, and what it prints once it listens. */
const lasting = [
  { begins: "npm run headgate -- finance-backend", listens: /"listener":"finance-backend"/ },
  { begins: "npm start ", listens: /"listener":"traffic"/ },
];

/** The shown lines, each whole and in their order; `…` stands for anything. */
function patternOf(shown: string): RegExp {
  const lines = shown
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", ".+"));
  return new RegExp(lines.map((line) => `^${line}\\s*$`).join("[^]*?"), "m");
}

const title = "each command does what the page shows (needs curl: apt-get install curl)";
const skip = !isInstalled("curl", "--version") && HEADGATE_REQUIRE !== "all";

test.skipIf(skip)(title, async () => {
  const file = join(scratchFolder(cleanup), "my.yaml");
  const [api, traffic] = [await freePort(), await freePort()];
  const here = (text: string): string =>
    text
      .replaceAll("my.yaml", file)
      .replaceAll(/\b3000\b/g, `${api}`)
      .replaceAll(/\b8080\b/g, `${traffic}`);
  const env = { HEADGATE_ADMIN_PORT: "0" };
  const blocks = [...read("docs/start.md").matchAll(/^```(sh|)\n(.*?)^```/gms)];
  const [install, ...others] = blocks.map(([, language = "", code = ""]) => ({ isCommand: language === "sh", code }));
  // It has been done, or this test would not run.
  expect(install).toEqual({ isCommand: true, code: "npm ci\n" });

  let gateway: Run | undefined;
  let output = "";
  let shown = 0;
  for (const { isCommand, code } of others) {
    if (!isCommand) {
      expect(output).toMatch(patternOf(here(code)));
      shown += 1;
      output = "";
      continue;
    }
    const stays = lasting.find(({ begins }) => code.startsWith(begins));
    if (stays !== undefined) {
      gateway = run("/bin/sh", ["-c", `exec ${here(code)}`], env);
      await gateway.until(stays.listens);
      continue;
    }
    const child = spawn("/bin/sh", ["-ec", here(code)], { cwd: root, env: { PATH: process.env["PATH"], ...env } });
    child.stdout.on("data", (data: Buffer) => {
      output += data.toString().replaceAll("\r", "");
    });
    const [exitCode] = await once(child, "close");
    expect([code, exitCode]).toEqual([code, 0]);
    if (code.startsWith("sed ")) await gateway?.until(/"msg":"reloaded"/);
  }
  expect(shown).toBe(5);
});

test("in front of one's own API: in shadow, nobody is refused, and who would be is counted", async () => {
  const upstream = cleanup(await startUpstream());
  const file = join(scratchFolder(cleanup), "c.yaml");
  const [yaml = ""] = codeBlocks("docs/start.md", "yaml");
  writeFileSync(file, yaml);
  const gateway = await startFromFile(cleanup, upstream.url, file, { "admin.port": "0" });
  for (let i = 0; i < 101; i += 1) expect((await fetch(`${gateway.url}/any/path`)).status).toBe(200);
  const [name = ""] = /headgate_decisions_total\{[^}]*\}/.exec(read("docs/start.md")) ?? [];
  expect(await metric(gateway, name)).toBe(1);
});
