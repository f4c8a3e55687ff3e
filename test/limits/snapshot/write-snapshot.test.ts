// Snapshots of a real table, written by the thread that writes them, and read again.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, describe as group, test } from "vitest";
import { openSnapshot } from "../../../src/limits/snapshot/file.ts";
import type { SnapshotDescription } from "../../../src/limits/snapshot/format.ts";
import { type SnapshotSource, WriterThread, writeSnapshot } from "../../../src/limits/snapshot/write.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { ruleOf } from "../../support/rule.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { describe, encode, monthly, record, sliding } from "./sample.ts";

const cleanup = useCleanup();
let folder = "";
let path = "";
beforeEach(() => {
  folder = scratchFolder(cleanup);
  path = join(folder, "counters");
});

const bytes = 2 ** 20;

function newTable(): CounterTable {
  return new CounterTable(createTableMemory(bytes), { secret: describe().placeSecret });
}

function fill(records: readonly CounterRecord[]): CounterTable {
  const table = newTable();
  for (const each of records) expect(table.maintenance.restore(each)).toBe(true);
  return table;
}

function sourceOf({ maintenance }: CounterTable, others: Partial<SnapshotSource> = {}): SnapshotSource {
  return {
    shardCount: maintenance.shardCount,
    copyShard: (index) => maintenance.copyShard(index),
    tableMs: () => describe().tableMs,
    describe,
    rules: () => [],
    slots: () => [
      { slot: sliding.slot, windowMs: 60_000 },
      { slot: monthly.slot, windowMs: null },
    ],
    ...others,
  };
}

async function readBack(): Promise<{ records: CounterRecord[]; description: SnapshotDescription }> {
  const opened = await openSnapshot(path);
  if (opened.kind !== "read") throw new Error(JSON.stringify(opened));
  const records: CounterRecord[] = [];
  await opened.snapshot.eachRecord((each) => void records.push(each));
  await opened.close();
  return { records, description: opened.snapshot.description };
}

const byKey = (a: CounterRecord, b: CounterRecord): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);

const later: CounterRecord = record({ entries: [[90_000, 6]], key: [1, 1, 1, 1] });
const current: CounterRecord = record({ slot: monthly.slot, entries: [[7, 5]] });

const many: readonly CounterRecord[] = Array.from({ length: 2_000 }, (_, i) =>
  record({
    // As a keyed hash: these words say where the key goes.
    key: [Math.imul(i, 0x9e3779b1), Math.imul(i, 0x85ebca77), 7, i],
    isAddress: false,
    // One in five is exhausted: its last instant is there again.
    entries: [
      ...Array.from({ length: 1 + (i % 9) }, (_, j) => [50_000 + j, 1 + j] as const),
      ...(i % 5 === 0 ? [[50_000 + (i % 9), 0] as const] : []),
    ],
  }),
);

test("rules are written with the keys, however many there are, and read again", async () => {
  const rules = Array.from({ length: 3_000 }, (_, i) =>
    ruleOf(`r${i}`, { kind: "subject", value: `${i} \u{1f512}` }, { note: "\u20ac".repeat(500) }),
  );
  expect(await writeSnapshot(path, sourceOf(fill(many), { rules: () => rules }))).toMatchObject({ ok: true });
  const opened = await openSnapshot(path);
  if (opened.kind !== "read") throw new Error(JSON.stringify(opened));
  await opened.close();
  expect(opened.snapshot.rules).toEqual(rules);
  expect((await readBack()).records).toHaveLength(many.length);
});

test("every key of a table is written, and read again", async () => {
  const result = await writeSnapshot(path, sourceOf(fill(many)));
  expect(result).toEqual({ ok: true, bytes: statSync(path).size, records: many.length });
  const { records, description } = await readBack();
  expect(records.toSorted(byKey)).toEqual(many.toSorted(byKey));
  expect(description).toEqual(describe());
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["counters"]);
});

test("what has expired is left out, and so are slots without a policy", async () => {
  const expiring = { ...later, entries: [[40_000, 5] as const, ...later.entries] };
  const left = [record({ entries: [[40_000, 5]] }), record({ key: [2, 2, 2, 2], slot: 9 })];
  await writeSnapshot(path, sourceOf(fill([...left, expiring, current])));
  expect((await readBack()).records.toSorted(byKey)).toEqual([later, current].toSorted(byKey));
});

test("a shard that another thread changes is copied when it is free", async () => {
  const { maintenance } = fill(many);
  const asked = new Map<number, number>();
  const copyShard = (index: number) => {
    asked.set(index, (asked.get(index) ?? 0) + 1);
    return index === 2 && asked.get(2) === 1 ? null : maintenance.copyShard(index);
  };
  expect(await writeSnapshot(path, sourceOf(newTable(), { copyShard }))).toMatchObject({ records: many.length });
  expect(asked.get(2)).toBe(2);
});

test("a policy whose slot a reload has given to another one is left out", async () => {
  const other = { ...sliding, name: "other" };
  const descriptions = [describe(), describe({ policies: [other, monthly] })];
  const source = sourceOf(fill([current]), {
    describe: () => descriptions.shift() ?? describe(),
  });
  expect(await writeSnapshot(path, source)).toMatchObject({ ok: true });
  expect((await readBack()).description.policies).toEqual([monthly]);
});

group("what fails leaves no file, and the snapshot from before", () => {
  test("a folder that is not there", async () => {
    const result = await writeSnapshot(join(folder, "none", "counters"), sourceOf(newTable()));
    expect(result).toEqual({ ok: false, code: "ENOENT" });
  });

  test("a folder in the place of the file", async () => {
    mkdirSync(path);
    expect(await writeSnapshot(path, sourceOf(newTable()))).toEqual({ ok: false, code: "EISDIR" });
    expect(readdirSync(folder)).toEqual(["counters"]);
  });

  test("a table that cannot be copied", async () => {
    await writeSnapshot(path, sourceOf(fill(many)));
    const before = readFileSync(path);
    const copyShard = () => {
      throw new RangeError("no memory");
    };
    expect(await writeSnapshot(path, sourceOf(newTable(), { copyShard }))).toEqual({ ok: false, code: "RangeError" });
    expect(readdirSync(folder)).toEqual(["counters"]);
    expect(readFileSync(path).equals(before)).toBe(true);
  });
});

group("at a start", () => {
  test("there may be no snapshot, and no folder", async () => {
    expect(await openSnapshot(path)).toEqual({ kind: "none" });
    expect(await openSnapshot(join(folder, "none", "counters"))).toEqual({ kind: "none" });
  });

  test("a refused file is kept aside, in place of the one before", async () => {
    for (const text of ["first", "second"]) {
      writeFileSync(path, text);
      expect(await openSnapshot(path)).toEqual({ kind: "refused", reason: "is not one of this program" });
    }
    expect(readdirSync(folder)).toEqual(["counters.refused"]);
    expect(readFileSync(`${path}.refused`, "utf8")).toBe("second");
  });

  test("what is no file is left alone", async () => {
    mkdirSync(path);
    expect(await openSnapshot(path)).toEqual({ kind: "refused", reason: "cannot be read: ENOTREGULAR" });
    expect(readdirSync(folder)).toEqual(["counters"]);
  });

  test("temporary files of processes that were killed are removed, and nothing else", async () => {
    const names = [".counters.0123456789abcdef.tmp", ".counters.tmp", ".others.0123456789abcdef.tmp", "counters"];
    for (const name of names) writeFileSync(join(folder, name), encode());
    const opened = await openSnapshot(path);
    expect(opened.kind).toBe("read");
    if (opened.kind === "read") await opened.close();
    expect(readdirSync(folder).toSorted()).toEqual(names.slice(1).toSorted());
  });
});

test("a thread that says nothing is given up, so that a drain ends", async () => {
  const entry = new URL("./silent-thread.ts", import.meta.url);
  const thread = new WriterThread({ path: "unused", temporary: "unused", slots: [] }, { entry, silenceMs: 20 });
  const { describe } = sourceOf(newTable());
  await expect(thread.ask({ kind: "finish", description: describe() })).rejects.toMatchObject({ code: "TIMEOUT" });
  await thread.end();
});
