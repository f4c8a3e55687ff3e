// `headgate clients --watch` with a gateway that a test makes up: what it writes, what an error does, and how it ends.
import { beforeEach, expect, test, vi } from "vitest";
import { run } from "../../../src/commands/admin/run.ts";
import { parseArguments } from "../../../src/commands/arguments.ts";
import type { TerminalSize } from "../../../src/commands/io.ts";
import { status } from "../../admin/fake-plane.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { testIo } from "../test-io.ts";
import { startMadeUp } from "./command-stage.ts";

const cleanup = useCleanup();

type Answer = [number, unknown];

const listOf = (...names: readonly string[]): Answer => {
  const clients = names.map((name) => ({
    ...{ key: `client:${name}`, name, policy: "per-client", countedAs: null, method: null, route: null },
    ...{ limit: 100, used: 7, remaining: 93, reset: "2026-11-24T12:00:30.000Z", resetSeconds: 30 },
    ...{ last: "2026-11-24T11:59:59.000Z", refused: null, seen: null, actions: [] },
  }));
  return [200, { clients, refusedSince: null, isComplete: true, isShared: false }];
};
const refusal = (code: number, errMsg: string): Answer => [code, { message: "", errors: [{ errMsg }] }];

let answer: Answer;
beforeEach(() => {
  answer = listOf("203.0.113.7");
});

async function watch(words: string, terminal: TerminalSize | null = null) {
  // Only those of the command: node:http has others.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  cleanup(() => vi.useRealTimers());
  const gateway = await startMadeUp(cleanup, (_method, path) => {
    return path === "/api/status" ? [200, { ...status, caller: { name: "ops", role: "write" } }] : answer;
  });
  const io = testIo({ terminal });
  const parsed = parseArguments(["clients", "--watch", ...words.split(" ").filter(Boolean), ...gateway.options]);
  if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("no invocation");
  const ended = run(parsed.invocation.args, io, status.version);
  const asked = () => gateway.received.filter((call) => call.includes("/api/clients?"));
  const waits = (calls: number) =>
    eventually(`it waits after call ${calls}`, () => asked().length === calls && vi.getTimerCount() === 1);
  return { gateway, io, ended, asked, waits };
}

const tableOf = (name: string): string =>
  `KEY                 POLICY       USED  MORE IN  THROTTLED\nclient:${name}  per-client  7/100     30 s\n`;

test("without a terminal, prints the table every 2 s, with an empty line between", async () => {
  const { io, ended, asked, waits } = await watch("--sort recent");
  await waits(1);
  answer = listOf("203.0.113.8");
  vi.advanceTimersByTime(1_999);
  expect(asked()).toHaveLength(1);
  vi.advanceTimersByTime(1);
  await waits(2);
  io.signal("SIGTERM");
  expect(await ended).toBe(0);
  expect(io.outText()).toBe(`${tableOf("203.0.113.7")}\n${tableOf("203.0.113.8")}`);
  expect(asked()).toEqual(Array(2).fill("GET /api/clients?sort=recent&limit=20"));
});

test("with --json, prints each answer, on a terminal too", async () => {
  const { io, ended, waits } = await watch("--json", { columns: 80, rows: 24 });
  await waits(1);
  vi.advanceTimersByTime(2_000);
  await waits(2);
  io.signal("SIGINT");
  await ended;
  expect(
    io
      .outText()
      .split("\n\n")
      .map((text) => JSON.parse(text)),
  ).toEqual([answer[1], answer[1]]);
});

test("an error of a call is said, and the next call is tried", async () => {
  const { io, ended, waits } = await watch("");
  await waits(1);
  answer = refusal(503, "It is too busy.");
  vi.advanceTimersByTime(2_000);
  await waits(2);
  answer = listOf("203.0.113.8");
  vi.advanceTimersByTime(2_000);
  await waits(3);
  io.signal("SIGINT");
  await ended;
  expect(io.errText()).toMatch(/^headgate: the gateway at .* cannot be asked: it answers 503\n {2}It is too busy\.\n$/);
  expect(io.outText()).toBe(`${tableOf("203.0.113.7")}\n${tableOf("203.0.113.8")}`);
});

test.each([
  ["a first call that fails", 0, refusal(400, "query.policy: no such policy"), 1],
  ["a token that is no longer accepted", 1, refusal(401, "No."), 77],
] as const)("%s ends it", async (_what, before, error, exitCode) => {
  if (before === 0) answer = [...error];
  const { io, ended, waits } = await watch("");
  if (before === 1) {
    await waits(1);
    answer = [...error];
    vi.advanceTimersByTime(2_000);
  }
  expect(await ended).toBe(exitCode);
  expect(io.errText()).toContain("headgate: ");
});

test("a signal ends it while the gateway has not answered", async () => {
  const { io, ended, gateway, waits } = await watch("");
  await waits(1);
  gateway.server.removeAllListeners("request");
  const asked = new Promise((resolve) => gateway.server.once("request", resolve));
  vi.advanceTimersByTime(2_000);
  await asked;
  io.signal("SIGINT");
  expect(await ended).toBe(0);
});

test("on a terminal, draws over the table before, with what fits, and an error above it", async () => {
  const size = { columns: 30, rows: 4 };
  answer = listOf("203.0.113.7", "203.0.113.8", "203.0.113.9");
  const { io, ended, waits } = await watch("", size);
  await waits(1);
  const begin = "\x1b[?7l\x1b[H";
  const end = "\x1b[J\x1b[?7h";
  const first = io.outText();
  const headline = /At \d\d:\d\d:\d\d UTC, every 2 s unt/.exec(first)?.[0];
  const drawn = (...lines: readonly unknown[]) => `${begin}${lines.map((line) => `\x1b[2K${line}\n`).join("")}${end}`;
  const table = drawn(headline, "KEY                 POLICY    ", "client:203.0.113.7  per-client");
  expect(first).toBe(`\n\n\n\n${table}`);
  answer = refusal(503, "It is too busy.");
  vi.advanceTimersByTime(2_000);
  await waits(2);
  const failed = drawn("headgate: the gateway at http:", "  It is too busy.", headline);
  expect(io.outText()).toBe(`${first}${failed}`);
  io.signal("SIGINT");
  await ended;
  expect(io.outText()).toBe(`${first}${failed}\n`);
  expect(io.errText()).toBe("");
});
