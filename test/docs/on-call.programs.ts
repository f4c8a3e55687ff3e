// The commands and the calls of docs/on-call.md and docs/reload.md, one after the other as they stand there, against a
// gateway: each is answered as the page says.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { writeToken } from "../admin/api-stage.ts";
import { stageCommands } from "../commands/admin/command-stage.ts";
import { isInstalled } from "../conformance/fuzz/backends/backend.ts";
import { useCleanup } from "../support/cleanup.ts";
import { read } from "./markdown.ts";

const cleanup = useCleanup();

const yaml = (limit: number): string => `
clientAddress: { trustedProxies: [127.0.0.1] }
auth: { mode: tokens, tokensFile: FOLDER/tokens.txt }
policies:
  - { name: per-ip, limit: ${limit}, window: 60s, who: others }
  - { name: by-partner, limit: 1000, per: day, key: [subject], who: verified }
`;

/** Those that do not end with 0 here, since there is no such request, and nothing on trial any more. */
const codes: ReadonlyMap<string, number> = new Map([
  ["headgate why 236dbc4e-a7bf-435c-bac1-5bf091b10570", 1],
  ["headgate why request:order-7", 1],
  ["headgate take-back", 1],
]);

function commandsOf(page: string): string[] {
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = ""]) => block.replaceAll("\\\n", " "));
  const lines = blocks.flatMap((block) => block.split("\n")).map((line) => line.replace(/\s+#.*$/, ""));
  return lines.filter((line) => /^(headgate|curl) /.test(line));
}

const { HEADGATE_REQUIRE } = process.env;
const skip = !isInstalled("curl", "--version") && HEADGATE_REQUIRE !== "all";

test.skipIf(skip)("each command and each call does what it is for (needs curl: apt-get install curl)", async () => {
  const { gateway, socket, headgate, write } = await stageCommands(cleanup, yaml(3));
  const ask = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/v2/x`, { headers: { "x-forwarded-for": "203.0.113.7" } });
    await response.arrayBuffer();
    return response.status;
  };
  const curl = async (line: string): Promise<{ status: number; body: string }> => {
    const own = line
      .replaceAll("/run/headgate/admin.sock", socket)
      .replaceAll("https://gateway.example:9464", gateway.adminUrl)
      .replace(/^curl /, "curl -s -w '\\n%{http_code}' ");
    const child = spawn("/bin/sh", ["-c", own], { env: { ...process.env, TOKEN: writeToken } });
    let out = "";
    child.stdout.on("data", (data: Buffer) => {
      out += data.toString();
    });
    await once(child, "close");
    const [, body = "", status = ""] = /^(.*)\n(\d+)$/s.exec(out) ?? [];
    return { status: Number(status), body };
  };
  expect([await ask(), await ask(), await ask(), await ask()]).toEqual([401, 401, 401, 429]);
  const commands = commandsOf(read("docs/on-call.md") + read("docs/reload.md"));
  expect(commands.length).toBeGreaterThan(20);
  const statuses: number[] = [];
  for (const line of commands) {
    if (line.startsWith("headgate reload")) write(yaml(4));
    // The page blocks the client once more with it.
    if (line.startsWith("headgate rules remove inc-123")) continue;
    if (line.startsWith("curl")) {
      const { status, body } = await curl(line);
      expect([line, status, body.startsWith("{")]).toEqual([line, line.includes("-X PUT") ? 201 : 200, true]);
      if (line.includes("/api/check")) expect(JSON.parse(body)).toMatchObject({ status: 401, reason: "no_token" });
    } else {
      const { code } = await headgate(line.split(" ").slice(1));
      expect([line, code]).toEqual([line, codes.get(line) ?? 0]);
    }
    if (/ forgive | block | remove |-X (PUT|DELETE)/.test(line)) statuses.push(await ask());
  }
  // Forgiven, blocked, its rule removed, blocked by the call, and that rule removed.
  expect(statuses).toEqual([401, 403, 401, 403, 401]);
});
