// The examples of docs/move, beside what they replace: one client sends the same requests at the same time to both. What each
// admits stands in a table of the page.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { accepts, isInstalled } from "../conformance/fuzz/backends/backend.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { startsWithinMs } from "../support/gateway-process.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { codeBlocks, read, root } from "./markdown.ts";

const cleanup = useCleanup();

/** So many at once, at this time after the first. */
interface Burst {
  readonly atMs: number;
  readonly count: number;
}

interface Move {
  readonly page: string;
  readonly program: string;
  /** Starts the original in front of the upstream, and returns its port. */
  readonly start: (cleanup: Cleanup, example: string, upstream: string) => Promise<number>;
  readonly language: string;
  readonly bursts: readonly Burst[];
  /** If an answer comes later than that after its time, the page may be right and the counts others: all is sent anew. */
  readonly mostLateMs: number;
  /** How the bursts are added up in the page's table: the first of each sum. */
  readonly sums: readonly number[];
}

/** From the last bursts to the border of a window. */
const borderMs = 800;
const border: readonly Burst[] = [
  { atMs: 0, count: 1 },
  { atMs: 3_200, count: 30 },
  { atMs: 4_800, count: 30 },
];

const moves: readonly Move[] = [
  {
    page: "nginx",
    program: "nginx",
    language: "nginx",
    start: (cleanup, example, upstream) =>
      startProgram(cleanup, example, upstream, (text, folder) => [
        "nginx",
        ["-c", join(folder, "config"), "-p", folder, "-e", join(folder, "errors")],
        `daemon off; pid ${folder}/pid; events {} http { access_log off; ${[
          "client_body",
          "proxy",
          "fastcgi",
          "uwsgi",
          "scgi",
        ]
          .map((use) => `${use}_temp_path ${folder}/${use};`)
          .join(" ")} ${text} }`,
      ]),
    bursts: [0, 1_050, 2_700].map((atMs) => ({ atMs, count: 30 })),
    // It admits ten a second.
    mostLateMs: 200,
    sums: [0, 1, 2],
  },
  {
    page: "haproxy",
    program: "haproxy",
    language: "haproxy",
    start: (cleanup, example, upstream) =>
      startProgram(cleanup, example, upstream, (text, folder) => ["haproxy", ["-f", join(folder, "config")], text]),
    // What follows begins when the first are answered.
    bursts: [{ atMs: 0, count: 30 }, ...Array.from({ length: 80 }, (_, i) => ({ atMs: 500 + 50 * i, count: 1 }))],
    mostLateMs: 400,
    sums: [0, 1],
  },
  {
    page: "express-rate-limit",
    program: "node",
    language: "js",
    start: (cleanup, example) => startModule(cleanup, `${example}\napp.listen(PORT, "127.0.0.1");\n`),
    bursts: border,
    mostLateMs: borderMs / 2,
    sums: [0, 1, 2],
  },
  {
    page: "fastify",
    program: "node",
    language: "js",
    start: (cleanup, example) =>
      startModule(cleanup, `${example}\nawait app.listen({ port: PORT, host: "127.0.0.1" });\n`),
    bursts: border,
    mostLateMs: borderMs / 2,
    sums: [0, 1, 2],
  },
];

/** How far a busy machine may be from what the page says: it sends a little later than it should. */
const tolerance = 2;

test.skipIf(!moves.every(({ program }) => isInstalled(program)))("each admits what its page says", async () => {
  const upstream = cleanup(await startUpstream());
  const tables = await Promise.all(
    moves.map(async ({ page, language, start, bursts, mostLateMs, sums }) => {
      const path = `docs/move/${page}.md`;
      const [original = ""] = codeBlocks(path, language);
      const file = join(scratchFolder(cleanup), "headgate.yaml");
      writeFileSync(file, codeBlocks(path, "yaml")[0] ?? "");
      const sendToBoth = async (): Promise<readonly Sent[]> => {
        const gateway = await startFromFile(cleanup, upstream.url, file, { "admin.port": "0" });
        const ports = [await start(cleanup, original, upstream.url), Number(new URL(gateway.url).port)];
        return Promise.all(ports.map((port) => send(port, bursts)));
      };
      let sent = await sendToBoth();
      while (sent.some(({ lateMs }) => lateMs > mostLateMs)) sent = await sendToBoth();
      const found = sent.map(({ admitted }) => sums.map((from, i) => sum(admitted.slice(from, sums[i + 1]))));
      const rows = [...read(path).matchAll(/^\| .* admits \| (.*) \|$/gm)].map(([, cells = ""]) => cells.split(" | "));
      return { page, found, rows };
    }),
  );
  for (const { page, found, rows } of tables) {
    expect([page, rows.length]).toEqual([page, 2]);
    const isClose = (cell: string, count = Number.NaN): boolean => {
      const [least = Number.NaN, most = least] = cell.split(" to ").map(Number);
      return count >= least - tolerance && count <= most + tolerance;
    };
    const others = rows.map((cells, i) => cells.filter((cell, k) => !isClose(cell, found[i]?.[k])));
    expect([page, found, others]).toEqual([page, found, [[], []]]);
  }
});

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

interface Sent {
  /** Of each burst. */
  readonly admitted: readonly number[];
  /** How late the latest answer came. */
  readonly lateMs: number;
}

async function send(port: number, bursts: readonly Burst[]): Promise<Sent> {
  const agent = cleanup(new Agent({ keepAlive: true }));
  const beganMs = performance.now();
  const admitted: Promise<number>[] = [];
  let lateMs = 0;
  for (const { atMs, count } of bursts) {
    await sleep(Math.max(0, beganMs + atMs - performance.now()));
    const answers = Promise.all(Array.from({ length: count }, () => ask(port, agent)));
    admitted.push(
      answers.then((statuses) => {
        lateMs = Math.max(lateMs, performance.now() - beganMs - atMs);
        return statuses.filter((status) => status === 200).length;
      }),
    );
  }
  const all = await Promise.all(admitted);
  return { admitted: all, lateMs };
}

async function ask(port: number, agent: Agent): Promise<number> {
  const [response] = await once(request({ host: "127.0.0.1", port, agent, path: "/v2/me" }).end(), "response");
  response.resume();
  return response.statusCode;
}

/** Starts the example with the ports of this test in the place of its own. `commandOf` returns the command and its configuration. */
async function startProgram(
  cleanup: Cleanup,
  example: string,
  upstream: string,
  commandOf: (example: string, folder: string) => readonly [command: string, args: readonly string[], config: string],
): Promise<number> {
  const port = await freePort();
  const folder = scratchFolder(cleanup);
  const text = example.replace("127.0.0.1:8080", `127.0.0.1:${port}`).replace("127.0.0.1:3000", new URL(upstream).host);
  const [command, args, config] = commandOf(text, folder);
  writeFileSync(join(folder, "config"), config);
  return listening(cleanup, port, command, args);
}

async function startModule(cleanup: Cleanup, listen: string): Promise<number> {
  const port = await freePort();
  return listening(cleanup, port, process.execPath, [
    "--input-type=module",
    "-e",
    listen.replace("PORT", String(port)),
  ]);
}

async function listening(cleanup: Cleanup, port: number, command: string, args: readonly string[]): Promise<number> {
  const group = startProcessGroup(command, args, { stdout: "ignore", stderr: "inherit", cwd: root });
  cleanup(() => group.end());
  await eventually(`${command} listens`, () => accepts(port), startsWithinMs);
  return port;
}
