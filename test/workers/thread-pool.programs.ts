// Threads that cannot be started, that start when the gateway ends, and whose questions have no answer.
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { FileWatcher } from "../../src/config/files.ts";
import { systemClock } from "../../src/core/clock.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { createCounterMemory, ofMainThread, openCounters } from "../../src/gateway/open-counters.ts";
import { startThreads } from "../../src/gateway/threads/thread-pool.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";
import { keptLog } from "../telemetry/lines.ts";
import { type Fault, faultChannel } from "./faulty-thread.ts";
import { type HeldWord, heldChannel } from "./held-thread.ts";

const cleanup = useCleanup();
const entryOf = (name: string): URL => new URL(`./${name}.ts`, import.meta.url);

/** Two threads that listen. `entry`: what the next thread runs, by the lines of the log so far. */
async function stage(entry: (messages: readonly string[]) => URL, readForgiven = async (): Promise<void> => {}) {
  const { log, written, lines } = keptLog();
  const settings = testSettings(deadUrl, { workers: 2 });
  const messages = (): readonly string[] => lines().map(({ msg }) => msg);
  const { threads } = await startThreads(settings, new FileWatcher(), {
    counters: openCounters(createCounterMemory(minTableBytes), ofMainThread(settings)),
    ...{ clock: systemClock, log, readForgiven, runtimeRules: new RulesInForce() },
    ...{ version: "0.0.0-test", nodeVersion: process.versions.node, droppedLogLines: () => 0 },
    destination: { write: (some: string) => written.push(...some.trimEnd().split("\n")) },
    rules: { list: () => [], get: () => null },
    get threadEntry() {
      return entry(messages());
    },
  });
  cleanup(() => threads.close());
  await threads.listen(settings);
  return { threads, messages };
}

/** Returns what says a word to all threads, and the words that they have said. */
function openChannel(name: string) {
  const channel = new BroadcastChannel(name);
  const heard: unknown[] = [];
  channel.onmessage = ({ data }: { readonly data: unknown }) => void heard.push(data);
  cleanup(() => channel.close());
  return { heard, say: (word: HeldWord | Fault) => channel.postMessage(word) };
}

test("a thread that cannot even be made is tried again, and the others go on", async () => {
  const isBroken = (lines: readonly string[]): boolean =>
    lines.includes("worker ended, another one is started") && !lines.includes("worker not started");
  const entry = (lines: readonly string[]) =>
    isBroken(lines) ? new URL("http://127.0.0.1/") : entryOf("faulty-thread");
  const { threads, messages } = await stage(entry);
  openChannel(faultChannel).say({ thread: 1, on: null, how: "exit" });
  await eventually("the second attempt succeeds", () => messages().includes("worker started"), 20_000);
  expect(threads.figures).toEqual({ configured: 2, serving: 2, restarts: 2 });
  expect(messages()).toContain("worker not started");
});

test("a thread that has not started when the gateway ends opens no port", async () => {
  const hasEnded = (lines: readonly string[]): boolean => lines.includes("worker ended, another one is started");
  const { threads, messages } = await stage((lines) => entryOf(hasEnded(lines) ? "held-thread" : "faulty-thread"));
  const channel = openChannel(heldChannel);
  openChannel(faultChannel).say({ thread: 1, on: null, how: "exit" });
  await eventually("another thread is started", () => channel.heard.includes("held"), 20_000);
  threads.announceEnd();
  channel.say("start");
  await threads.turn.over();
  expect(threads.figures.serving).toBe(1);
  expect(messages()).not.toContain("worker started");
});

test("a thread gets an answer if what was forgiven elsewhere cannot be read", async () => {
  const { messages } = await stage(
    () => entryOf("held-thread"),
    async () => {
      throw new Error("a bug");
    },
  );
  const channel = openChannel(heldChannel);
  channel.say("ask");
  await eventually("both threads are answered", () => channel.heard.filter((word) => word === "answered").length === 2);
  expect(messages().filter((message) => message === "internal error")).toHaveLength(2);
});
