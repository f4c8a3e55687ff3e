// The log of several threads: no line is torn, those of one thread keep their order, and what waits is bounded.
import { once } from "node:events";
import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import type { LogDestination } from "../../src/telemetry/destination.ts";
import { threadDestination, writeThreadLines } from "../../src/telemetry/thread-log.ts";

function channel(): { near: MessagePort; far: MessagePort } {
  const { port1: near, port2: far } = new MessageChannel();
  onTestFinished(() => near.close());
  return { near, far };
}

const flushed = (destination: LogDestination) => new Promise<void>((resolve) => destination.flush(resolve));

function startThread(name: string, end: string): { thread: Worker; port: MessagePort } {
  const { near, far } = channel();
  const file = new URL("log-thread.ts", import.meta.url);
  const thread = new Worker(file, { workerData: { name, port: far, end }, transferList: [far] });
  onTestFinished(async () => void (await thread.terminate()));
  return { thread, port: near };
}

interface NumberedLine {
  readonly name: string;
  readonly i: number;
  readonly text: string;
}

/** The lines of one thread; throws if one is torn. */
function linesOf(name: string, written: readonly string[]): NumberedLine[] {
  const lines = written.join("").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as NumberedLine).filter((line) => line.name === name);
}

const numbers = Array.from({ length: 300 }, (_, i) => i);

test("lines of several threads, also of 100 KiB, are whole, all there, and those of one thread in order", async () => {
  const written: string[] = [];
  const ends = { flush: "flush", "no flush": "none", exit: "exit" };
  const threads = Object.entries(ends).map(([name, end]) => startThread(name, end));
  await Promise.all(threads.map(({ port }) => writeThreadLines(port, { write: (lines) => written.push(lines) })));
  for (const name of Object.keys(ends)) {
    const lines = linesOf(name, written);
    expect(lines.map(({ i }) => i)).toEqual(numbers);
    for (const { i, text } of lines) expect(text).toHaveLength(i % 100 === 7 ? 100 * 1024 : i);
  }
  // The 900 lines needed far fewer messages.
  expect(written.length).toBeLessThan(100);
});

test("what a thread had posted is written although it was terminated before anybody read it", async () => {
  const { thread, port } = startThread("dead", "terminate");
  await once(thread, "message");
  await thread.terminate();
  const written: string[] = [];
  await writeThreadLines(port, { write: (lines) => written.push(lines) });
  expect(linesOf("dead", written).map(({ i }) => i)).toEqual(numbers);
});

test("the lines of one moment are one message", async () => {
  const { near, far } = channel();
  const messages: string[] = [];
  near.on("message", (lines: string) => messages.push(lines));
  const destination = threadDestination(far, { delayMs: 1 });
  for (let i = 0; i < 100; i += 1) destination.write(`${i}\n`);
  await expect.poll(() => messages, { interval: 1 }).toHaveLength(1);
  expect(messages[0]?.split("\n")).toHaveLength(101);
});

test("many lines of one turn are posted in pieces, so that the first are on their way before the last are there", async () => {
  const { near, far } = channel();
  const lengths: number[] = [];
  near.on("message", (lines: string) => lengths.push(lines.length));
  const destination = threadDestination(far, { delayMs: 10_000 });
  for (let i = 0; i < 256; i += 1) destination.write(`${"x".repeat(1023)}\n`);
  await expect.poll(() => lengths, { interval: 1 }).toEqual([65_536, 65_536, 65_536, 65_536]);
});

test("what is not acknowledged is bounded: lines beyond it are dropped and counted, until there is room again", async () => {
  const { near, far } = channel();
  const destination = threadDestination(far, { maxLength: 100, flushTimeoutMs: 1 });
  for (let i = 0; i < 7; i += 1) destination.write("123456789\n");
  // Posted, and nobody reads.
  await flushed(destination);
  for (let i = 0; i < 13; i += 1) destination.write("123456789\n");
  expect(destination.dropped).toBe(10);
  const written: string[] = [];
  void writeThreadLines(near, { write: (lines) => written.push(lines) });
  await expect
    .poll(async () => {
      await flushed(destination);
      return written.join("");
    })
    .toBe("123456789\n".repeat(10));
  for (let i = 0; i < 10; i += 1) destination.write("room more\n");
  expect(destination.dropped).toBe(10);
});

test("a flush waits for the main thread, no longer than its patience, and not for lines that come later", async () => {
  const { near, far } = channel();
  const destination = threadDestination(far, { delayMs: 10_000, flushTimeoutMs: 10_000 });
  let isDone = false;
  destination.flush(() => {
    isDone = true;
  });
  expect(isDone).toBe(true);
  const written: string[] = [];
  void writeThreadLines(near, { write: (lines) => written.push(lines) });
  destination.write("first\n");
  const first = flushed(destination);
  destination.write("second\n");
  await first;
  expect(written).toEqual(["first\n"]);
  await flushed(destination);
  expect(written).toEqual(["first\n", "second\n"]);
  const { far: deaf } = channel();
  const unheard = threadDestination(deaf, { flushTimeoutMs: 1 });
  unheard.write("unheard\n");
  await flushed(unheard);
});

test("more threads share the bound", () => {
  const line = `${"x".repeat(64 * 1024 - 1)}\n`;
  const droppedOf = (workers: number): number => {
    const destination = threadDestination(channel().far, { workers });
    for (let i = 0; i < 64; i += 1) destination.write(line);
    return destination.dropped;
  };
  expect([1, 2, 16, 64].map(droppedOf)).toEqual([0, 32, 60, 60]);
});
