// The watch of turns (bench/hostile/turn-watch.ts) in a process that does what the test tells it to.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { readTurns, turnWatch } from "./turn-figures.ts";

/** Burns CPU time, not elapsed time, so that a busy machine changes nothing. */
const program = `
  setInterval(() => {}, 60_000);
  const burn = (us) => {
    const begin = process.threadCpuUsage();
    for (;;) { const { user, system } = process.threadCpuUsage(begin); if (user + system >= us) return; }
  };
  process.on("message", ({ turn }) => {
    if (turn === "timer") setTimeout(function slowTimer() { burn(60_000); process.send("done"); }, 1);
    if (turn === "ticks") setTimeout(function queues() {
      for (let i = 0; i < 6; i++) process.nextTick(() => burn(10_000));
      process.nextTick(() => process.send("done"));
    }, 1);
    if (turn === "portions") {
      let left = 6;
      setImmediate(function portion() { burn(10_000); if (--left > 0) setImmediate(portion); else process.send("done"); });
    }
  });
`;

let child: ChildProcess;
afterEach(() => child.kill("SIGKILL"));

/** Returns the longest turn while the process does what the name says. */
async function longestTurnOf(turn: string) {
  const args = ["--import", turnWatch, "--eval", program];
  child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await readTurns(child);
  child.send({ turn });
  await once(child, "message");
  return readTurns(child);
}

test("the longest turn is the callback that took most CPU time, with its name", async () => {
  const { longestTurnUs, longestTurnStep } = await longestTurnOf("timer");
  expect(longestTurnUs).toBeGreaterThanOrEqual(60_000);
  expect(longestTurnStep).toContain("Timeout slowTimer");
});

test("ticks belong to the turn of the callback that queued them", async () => {
  const { longestTurnUs, longestTurnStep } = await longestTurnOf("ticks");
  expect(longestTurnUs).toBeGreaterThanOrEqual(60_000);
  expect(longestTurnStep).toContain("Timeout queues");
});

test("work in portions is as many turns", async () => {
  const { longestTurnUs, longestTurnStep } = await longestTurnOf("portions");
  expect(longestTurnUs).toBeGreaterThanOrEqual(10_000);
  expect(longestTurnUs).toBeLessThan(40_000);
  expect(longestTurnStep).toContain("Immediate portion");
});

test("each read begins anew, and says what the process has used", async () => {
  await longestTurnOf("timer");
  const { longestTurnUs, cpuUs, rssBytes } = await readTurns(child);
  expect(longestTurnUs).toBeLessThan(60_000);
  expect(cpuUs).toBeGreaterThan(60_000);
  expect(rssBytes).toBeGreaterThan(10_000_000);
});
