// The recipes of docs/log-pipelines.md for programs that Debian has, as they stand there, on the log of a gateway process:
// each request has its names of ECS, a client that left included, and no line is lost.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isInstalled } from "../conformance/fuzz/backends/backend.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startGatewayProcess, startsWithinMs } from "../support/gateway-process.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { codeBlocks, read } from "./markdown.ts";

const path = "docs/log-pipelines.md";
const { HEADGATE_REQUIRE } = process.env;
const skip = (command: string): boolean => !isInstalled(command) && HEADGATE_REQUIRE !== "all";
const cleanup = useCleanup();

interface EcsLine {
  readonly message: string;
  readonly log: { readonly level: string };
  readonly client?: { readonly address: string };
  readonly url?: { readonly path: string };
  readonly user_agent?: { readonly original: string };
  readonly http?: {
    readonly request: { readonly method: string };
    readonly response: { readonly status_code: number };
  };
  readonly headgate: Readonly<Record<string, unknown>>;
}

/** A request that was served, one that was refused, and one whose client left. */
async function writeLog(): Promise<string> {
  const upstream = cleanup(await startUpstream((req, res) => void (req.url === "/v2/slow" || res.end("ok"))));
  const gateway = await startGatewayProcess(cleanup, upstream.url, ["auth.mode=off"]);
  const url = `http://127.0.0.1:${gateway.port}`;
  const headers = { "user-agent": 'a "b" \\' };
  for (const target of ["/v2/x?secret=1", "/nowhere"]) await (await fetch(url + target, { headers })).text();
  const leaving = new AbortController();
  const left = fetch(`${url}/v2/slow`, { headers, signal: leaving.signal });
  await eventually("it is at the upstream", () => upstream.hits() === 2);
  leaving.abort();
  await expect(left).rejects.toThrow();
  await eventually("its line is written", () => gateway.output.out.includes('"complete":false'));
  gateway.signal("SIGTERM");
  await gateway.exited;
  return gateway.output.out;
}

function expectEcs(written: string, log: string): void {
  const lines: EcsLine[] = written
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const given: Record<string, unknown>[] = log
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.map(({ headgate }) => headgate)).toEqual(given);
  expect(lines.map(({ message, log: { level } }) => [message, level])).toEqual(
    given.map(({ msg, level }) => [msg, level]),
  );
  const requests = lines.filter(({ message }) => message === "request");
  expect(requests.map(({ url, http }) => [url?.path, http?.response.status_code])).toEqual([
    ["/v2/x", 200],
    ["/nowhere", 404],
    ["/v2/slow", 0],
  ]);
  for (const { client, http, user_agent: agent } of requests) {
    expect([client, http?.request.method, agent]).toEqual([{ address: "127.0.0.1" }, "GET", { original: 'a "b" \\' }]);
  }
}

test.skipIf(skip("jq"))("jq (needs jq: apt-get install jq)", async () => {
  const log = await writeLog();
  const [program = ""] = codeBlocks(path, "jq");
  const { stdout, stderr } = spawnSync("jq", ["-cR", program], { input: log, encoding: "utf8" });
  expect(stderr).toBe("");
  expectEcs(stdout, log);
  for (const line of stdout.trimEnd().split("\n")) expect(JSON.parse(line)["@timestamp"]).toMatch(/^20\d\d-.*T.*Z$/);
});

test.skipIf(skip("rsyslogd"))("rsyslog (needs rsyslog: apt-get install rsyslog)", async () => {
  const log = await writeLog();
  const folder = scratchFolder(cleanup);
  const [, recipe = ""] = /^## rsyslog\n\n```\n(.*?)^```/ms.exec(read(path)) ?? [];
  const own = recipe.replaceAll("/var/log", folder);
  writeFileSync(join(folder, "headgate.log"), log);
  writeFileSync(join(folder, "rsyslog.conf"), `global(workDirectory="${folder}")\n${own}`);
  const args = ["-n", "-f", join(folder, "rsyslog.conf"), "-i", join(folder, "pid")];
  const { end } = startProcessGroup("rsyslogd", args, { stdout: "ignore", stderr: "ignore" });
  cleanup(end);
  const output = join(folder, "headgate-ecs.log");
  const readOutput = (): string => (existsSync(output) ? readFileSync(output, "utf8") : "");
  const count = log.trimEnd().split("\n").length;
  const isWhole = (): boolean => readOutput().split("\n").length === count + 1;
  await eventually("rsyslog has written all lines", isWhole, startsWithinMs);
  expectEcs(readOutput(), log);
});

test.skipIf(skip("jq"))("the commands with jq in other pages (needs jq: apt-get install jq)", () => {
  const folder = scratchFolder(cleanup);
  const lines = [
    {
      time: 1_795_315_126_680,
      id: "a",
      client: "203.0.113.7",
      status: 429,
      problem: "throttled",
      path: "/v2/x",
      msg: "request",
    },
    { time: 1_795_315_126_681, client: "203.0.113.9", problem: null, msg: "request" },
    { time: 1_795_315_126_682, level: "warn", client: "203.0.113.7", omitted: 40, msg: "refused requests left out" },
    {
      time: 1_795_315_126_683,
      id: "b",
      client: "2001:db8::/64",
      status: 401,
      problem: "no_token",
      path: "/v2/y",
      msg: "request",
    },
    {
      time: 1_795_315_126_684,
      level: "info",
      msg: "rule set",
      id: "block-1",
      by: "oncall",
      about: { client: "203.0.113.7" },
    },
  ];
  writeFileSync(join(folder, "headgate.log"), `no JSON\n${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
  const commands = ["runbooks", "on-call", "logs", "log-lines"].flatMap((page) =>
    codeBlocks(`docs/${page}.md`, "sh").flatMap((block) => /^ *(jq .*)/ms.exec(block)?.[1] ?? []),
  );
  const results = commands.map((command) => spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8" }));
  expect(results.map(({ stdout, stderr }) => `${stdout}${stderr}`)).toEqual([
    "41 203.0.113.7\n1 2001:db8::/64\n",
    "2 203.0.113.7\n1 2001:db8::/64\n",
    '{"at":"2026-11-22T02:38:46Z","msg":"rule set","by":"oncall","id":"block-1","about":{"client":"203.0.113.7"}}\n',
    '{"id":"a","client":"203.0.113.7","status":429,"problem":"throttled","detail":null,"path":"/v2/x"}\n' +
      '{"id":"b","client":"2001:db8::/64","status":401,"problem":"no_token","detail":null,"path":"/v2/y"}\n',
    '{"time":1795315126682,"level":"warn","client":"203.0.113.7","omitted":40,"msg":"refused requests left out"}\n',
  ]);
});
