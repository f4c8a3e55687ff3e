// The log's way out: nothing lost when all is well, bounded and harmless when it is not.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { type LogDestination, openDestination } from "../../src/telemetry/destination.ts";

let folder: string;
let fds: number[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-log-"));
  fds = [];
});
afterEach(() => {
  for (const fd of fds) closeSync(fd);
  rmSync(folder, { recursive: true });
});

const opened = (path: string, flags: string | number): number => {
  const fd = openSync(path, flags);
  fds.push(fd);
  return fd;
};

const flushed = (destination: LogDestination) => new Promise<void>((resolve) => destination.flush(resolve));

/** A pipe whose ends do not block: writing to it when it is full fails with EAGAIN. */
function pipe(): { reader: number; writer: number } {
  const path = join(folder, "pipe");
  expect(spawnSync("mkfifo", [path]).status).toBe(0);
  const reader = opened(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader, writer: opened(path, constants.O_WRONLY | constants.O_NONBLOCK) };
}

test("every line is written, whole and in order, also those that come while others are being written", async () => {
  const file = join(folder, "log");
  const fd = opened(file, "w");
  // A file that something was written to already, as when two programs of a shell share it.
  let expected = "before\n";
  writeSync(fd, expected);
  const destination = openDestination({ fd });
  for (let i = 0; i < 5_000; i++) {
    const line = `line ${i} é\n`;
    expected += line;
    destination.write(line);
    if (i % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await flushed(destination);
  expect(readFileSync(file, "utf8")).toBe(expected);
  expect(destination.dropped).toBe(0);
});

test("lines given as bytes are copied, in order with those given as texts, at every border of a piece", async () => {
  const file = join(folder, "log");
  const destination = openDestination({ fd: opened(file, "w") });
  const bytes = Buffer.alloc(100_000);
  let expected = "";
  for (let i = 0; i < 2_000; i++) {
    const line = `${i} ${"é".repeat(i % 97)}${i % 500 === 7 ? "x".repeat(90_000) : ""}\n`;
    expected += line;
    if (i % 3 === 0) destination.write(line);
    else destination.writeBytes?.(bytes, bytes.write(line));
    if (i % 300 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await flushed(destination);
  expect(readFileSync(file, "utf8")).toBe(expected);
  expect(destination.dropped).toBe(0);
  const small = openDestination({ fd: opened(file, "w"), maxLength: 10 });
  for (let i = 0; i < 3; i++) small.writeBytes?.(bytes, 6);
  expect(small.dropped).toBe(2);
  await flushed(small);
});

test("a line alone is written after the delay, without a flush", async () => {
  const file = join(folder, "log");
  const destination = openDestination({ fd: opened(file, "w"), delayMs: 1 });
  destination.write("alone\n");
  expect(readFileSync(file, "utf8")).toBe("");
  await expect.poll(() => readFileSync(file, "utf8"), { interval: 1 }).toBe("alone\n");
});

test("a flush with nothing to write is done at once", () => {
  let done = false;
  openDestination({ fd: 1 }).flush(() => {
    done = true;
  });
  expect(done).toBe(true);
});

test("what is held back is bounded: lines beyond it are dropped and counted, and the rest is written", async () => {
  const file = join(folder, "log");
  const destination = openDestination({ fd: opened(file, "w"), maxLength: 100 });
  for (let i = 0; i < 30; i++) destination.write("123456789\n");
  expect(destination.dropped).toBe(20);
  await flushed(destination);
  destination.write("room again\n");
  await flushed(destination);
  expect(readFileSync(file, "utf8")).toBe(`${"123456789\n".repeat(10)}room again\n`);
  expect(destination.dropped).toBe(20);
});

test("several lines at once are written or dropped together, and each of them is counted", async () => {
  const file = join(folder, "log");
  const destination = openDestination({ fd: opened(file, "w"), maxLength: 10 });
  destination.write("1\n2\n3\n");
  destination.write("4\n5\n6\n");
  await flushed(destination);
  expect(readFileSync(file, "utf8")).toBe("1\n2\n3\n");
  expect(destination.dropped).toBe(3);
});

test("a reader that stands still holds up no flush for longer than its patience, and gets the lines when it goes on", async () => {
  const { reader, writer } = pipe();
  const destination = openDestination({ fd: writer, flushTimeoutMs: 30 });
  const line = `${"x".repeat(999)}\n`;
  for (let i = 0; i < 200; i++) destination.write(line);
  await flushed(destination);
  let read = 0;
  const buffer = Buffer.alloc(1024 * 1024);
  await expect
    .poll(() => {
      try {
        read += readSync(reader, buffer);
      } catch (error) {
        expect(error).toMatchObject({ code: "EAGAIN" });
      }
      return read;
    })
    .toBe(200 * 1_000);
  expect(destination.dropped).toBe(0);
});

test("lines that cannot be written are counted, and the next ones are tried again", async () => {
  const destination = openDestination({ fd: opened("/dev/full", "w") });
  destination.write("a\nb\n");
  await flushed(destination);
  expect(destination.dropped).toBe(2);
  destination.write("c\n");
  await flushed(destination);
  expect(destination.dropped).toBe(3);
});

const script = fileURLToPath(new URL("broken-stdout.ts", import.meta.url));

test("a process whose standard output nobody reads ends all the same, within its patience", async () => {
  const path = join(folder, "pipe");
  expect(spawnSync("mkfifo", [path]).status).toBe(0);
  opened(path, constants.O_RDONLY | constants.O_NONBLOCK);
  // A writer's end that blocks, as a shell and a container runtime make it.
  const child = spawn(process.execPath, [script], { stdio: ["pipe", opened(path, constants.O_WRONLY), "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const { stdin, stderr } = child;
  let told = "";
  stderr?.on("data", (chunk) => {
    told += chunk;
  });
  stdin?.end("go");
  const [code, signal] = await once(child, "exit");
  expect([code, signal]).toEqual([0, null]);
  expect(told).toContain("flushed");
});

test("a process whose standard output is closed goes on, counts what it lost and ends by itself", async () => {
  const child = spawn(process.execPath, [script], { stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  let told = "";
  child.stderr.on("data", (chunk) => {
    told += chunk;
    if (told.includes("ready") && !child.stdout.destroyed) {
      child.stdout.destroy();
      child.stdout.once("close", () => child.stdin.end("go"));
    }
  });
  const [code, signal] = await once(child, "exit");
  expect([code, signal]).toEqual([0, null]);
  expect(told).toContain("flushed, 5001 dropped");
});
