// What a thread hands over: a failure of it is a line of the log, and the next second another attempt.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Engine } from "../../src/gateway/engine.ts";
import { beginToHandOver } from "../../src/gateway/threads/hand-over.ts";
import { Pulse, pulseMs } from "../../src/gateway/threads/pulse.ts";
import { FakeClock } from "../support/clock.ts";
import { keptLog } from "../telemetry/lines.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

/** The main thread reads each message at once. Each message is shown as whether it has cells. */
async function stage() {
  const { log, lines } = keptLog();
  const pulse = new Pulse(Pulse.createMemory(), 1);
  const faults = { report: false, take: false, post: false };
  const fail = (name: keyof typeof faults): void => {
    if (faults[name]) throw new Error(`${name} failed`);
  };
  const engine = {
    cells: {},
    report: async () => fail("report"),
    threadRecent: {
      take() {
        fail("take");
        return [];
      },
    },
  } as unknown as Engine;
  const posted: boolean[] = [];
  const port = {
    postMessage({ cells }: { readonly cells: unknown }) {
      fail("post");
      posted.push(cells !== null);
      pulse.isReportWaiting = false;
    },
  };
  const handOver = await beginToHandOver(engine, { port, pulse, clock: new FakeClock(), log });
  const pass = () => vi.advanceTimersByTimeAsync(pulseMs);
  await pass();
  posted.splice(0);
  return { faults, posted, lines, handOver, pass };
}

const faulty = ["report", "take", "post"] as const;

test.each(faulty)("a thread whose %s fails once hands over again after a second", async (name) => {
  const { faults, posted, lines, pass } = await stage();
  faults[name] = true;
  await pass();
  expect(posted).toEqual([]);
  expect(lines().map(({ msg }) => msg)).toEqual(["internal error"]);
  faults[name] = false;
  await pass();
  expect(posted).toEqual([false]);
});

test.each(faulty)(
  "a reload in which the %s fails is in force, and its cells are handed over a second later",
  async (name) => {
    const { faults, posted, lines, handOver, pass } = await stage();
    faults[name] = true;
    await handOver();
    expect(lines().map(({ msg }) => msg)).toEqual(["internal error"]);
    faults[name] = false;
    await pass();
    await pass();
    expect(posted).toEqual([true, false]);
  },
);
