// Real processes that end and start again: by a signal, by kill -9, and with damaged snapshots in twenty ways.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream, type TestUpstream } from "../support/upstream.ts";
import { startWithSnapshot } from "./stage.ts";

const cleanup = useCleanup();
let folder = "";
let path = "";
let upstream: TestUpstream;
beforeEach(async () => {
  folder = scratchFolder(cleanup);
  path = join(folder, "counters");
  upstream = await startUpstream();
  cleanup(() => upstream.close());
});

const limit = "policies.0.limit=100";

test.each([1, 2])("100 requests, SIGTERM, start: 429 with the same Reset, by %d workers", async (workers) => {
  const settings = [limit, `workers=${workers}`];
  const first = await startWithSnapshot(cleanup, upstream.url, path, settings);
  const answers = await first.askTimes(101);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(100);
  const refused = answers[100];
  first.signal("SIGTERM");
  expect(await first.exited).toEqual({ code: 0, signal: null });
  expect(readdirSync(folder)).toEqual(["counters"]);

  const second = await startWithSnapshot(cleanup, upstream.url, path, settings);
  const after = await second.ask();
  expect(after.status).toBe(429);
  expect(Math.abs(after.reset - (refused?.reset ?? 0))).toBeLessThanOrEqual(1);
});

test("kill -9 loses at most what came after the last snapshot, and leaves no temporary file to the next start", async () => {
  const settings = [limit, "policies.0.window=1h"];
  const first = await startWithSnapshot(cleanup, upstream.url, path, settings);
  await first.askTimes(60);
  // The next one may have been begun before the last request. The one after it was begun after that.
  for (const which of ["next", "second"]) {
    const before = statSync(path, { throwIfNoEntry: false })?.ino;
    await eventually(`the ${which} snapshot`, () => statSync(path, { throwIfNoEntry: false })?.ino !== before);
  }
  await first.askTimes(20);
  first.signal("SIGKILL");
  await first.exited;
  writeFileSync(join(folder, ".counters.0123456789abcdef.tmp"), "what the killed process was writing");

  // This one has written no snapshot yet, for which it has a temporary file of its own, however slow its start is.
  const second = await startWithSnapshot(cleanup, upstream.url, path, [...settings, "counters.snapshot.every=1h"]);
  expect(readdirSync(folder)).toEqual(["counters"]);
  const answers = await second.askTimes(101);
  const admitted = answers.filter(({ status }) => status === 200).length;
  expect(admitted).toBeGreaterThanOrEqual(20);
  expect(admitted).toBeLessThanOrEqual(40);
});

test("twenty starts with damaged snapshots: each is refused with one line, and the gateway counts", async () => {
  const first = await startWithSnapshot(cleanup, upstream.url, path, [limit]);
  await first.askTimes(10);
  first.signal("SIGTERM");
  await first.exited;
  const whole = readFileSync(path);
  const cut = (length: number): Buffer => whole.subarray(0, length);
  const flipped = (bit: number): Buffer => {
    const bytes = Buffer.from(whole);
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    return bytes;
  };
  const version = Buffer.from(whole);
  version.writeUInt32LE(2, 8);
  const length = Buffer.from(whole);
  length.writeUInt32LE(0xffff_ffff, 16);
  const damaged = [
    ...[0, 5, 11, 20, 30, whole.length - 60, whole.length - 1].map(cut),
    ...[3, 70, 100, 150, 200, 300, 8 * whole.length - 300, 8 * whole.length - 1].map(flipped),
    ...[version, length, Buffer.alloc(100_000), Buffer.concat([whole, whole]), Buffer.from("listen: {}\n")],
  ];
  expect(damaged).toHaveLength(20);
  for (const bytes of damaged) {
    writeFileSync(path, bytes);
    const gateway = await startWithSnapshot(cleanup, upstream.url, path, ["policies.0.limit=3"]);
    const lines = gateway.output.out.split("\n").filter((line) => line.includes("snapshot of the counters refused"));
    expect(lines).toHaveLength(1);
    const statuses = (await gateway.askTimes(4)).map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    gateway.signal("SIGKILL");
    await gateway.exited;
    rmSync(`${path}.refused`);
  }
});
