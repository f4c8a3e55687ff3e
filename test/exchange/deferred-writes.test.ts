import { beforeEach, expect, test, vi } from "vitest";
import {
  type DeferredWriter,
  DeferredWrites,
  manyWrites,
  writesBetweenCounts,
} from "../../src/exchange/socket-writes.ts";

let written: string[] = [];
beforeEach(() => {
  written = [];
});

const writer = (name: string): DeferredWriter => ({ writeDeferred: () => void written.push(name) });
const batchEnd = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i}`);

function deferMany(writes: DeferredWrites, count: number): void {
  for (const name of names(count)) writes.defer(writer(name));
}

/** Of which the last batch was large. */
async function afterLargeBatch(): Promise<DeferredWrites> {
  const writes = new DeferredWrites();
  // The count begins with the last one of the first part.
  deferMany(writes, writesBetweenCounts + manyWrites - 1);
  await batchEnd();
  written = [];
  return writes;
}

test("while batches are small, each write is done at once, and one batch in many writes is counted", async () => {
  const immediates = vi.spyOn(globalThis, "setImmediate");
  const writes = new DeferredWrites();
  let counts = 0;
  for (const name of names(2 * writesBetweenCounts)) {
    // Between two writes others may call it, such as a gateway of another test that still closes.
    immediates.mockClear();
    writes.defer(writer(name));
    counts += immediates.mock.calls.length;
    expect(written.at(-1)).toBe(name);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  expect(counts).toBe(2);
  immediates.mockRestore();
});

test("after a large batch, writes are done at the end of theirs, in their order", async () => {
  const writes = await afterLargeBatch();
  for (const count of [manyWrites, 1_000, manyWrites]) {
    deferMany(writes, count);
    expect(written).toEqual([]);
    await batchEnd();
    expect(written).toEqual(names(count));
    written = [];
  }
});

test("one write fewer makes no large batch", async () => {
  const writes = new DeferredWrites();
  deferMany(writes, writesBetweenCounts + manyWrites - 2);
  await batchEnd();
  written = [];
  writes.defer(writer("next"));
  expect(written).toEqual(["next"]);
});

test("after a small batch, writes are done at once again", async () => {
  const writes = await afterLargeBatch();
  // Five are enough to go on, four are not.
  for (const count of [5, 4]) {
    written = [];
    deferMany(writes, count);
    expect(written).toEqual([]);
    await batchEnd();
    expect(written).toEqual(names(count));
  }
  writes.defer(writer("next"));
  expect(written.at(-1)).toBe("next");
});

test("what is deferred while others are written is written once, at the end of the next batch", async () => {
  const writes = await afterLargeBatch();
  writes.defer({
    writeDeferred() {
      written.push("first");
      writes.defer(writer("its next"));
    },
  });
  deferMany(writes, manyWrites);
  await batchEnd();
  expect(written).toEqual(["first", ...names(manyWrites)]);
  await batchEnd();
  expect(written).toEqual(["first", ...names(manyWrites), "its next"]);
  await batchEnd();
  expect(written).toHaveLength(manyWrites + 2);
});
