// Opens the table of counters: its memory, which other threads can use, and the secrets of its keys.
import { randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import { CounterTable, createTableMemory, type TableOptions } from "../limits/table/counter-table.ts";

/** What all threads of a process share. Can be sent to another thread. */
export interface CounterMemory {
  readonly memory: SharedArrayBuffer;
  /** 16 bytes: decides where keys go in the table. */
  readonly placeSecret: Uint8Array;
  /** 16 bytes: hashes the parts of keys. */
  readonly keySecret: Uint8Array;
}

/** The counters as one thread uses them. */
export interface ThreadCounters extends CounterMemory {
  readonly table: CounterTable;
}

/** The main thread beside threads that carry traffic: they have the numbers before. */
const mainThread = 255;

export function createCounterMemory(bytes: number): CounterMemory {
  return { memory: createTableMemory(bytes), placeSecret: randomBytes(16), keySecret: randomBytes(16) };
}

/** With one thread, the default options are right. */
export function openCounters(shared: CounterMemory, options: Omit<TableOptions, "secret"> = {}): ThreadCounters {
  const { memory, placeSecret: secret } = shared;
  return { ...shared, table: new CounterTable(memory, { ...options, secret }) };
}

export function ofMainThread({ workers }: Pick<Settings, "workers">): Omit<TableOptions, "secret"> {
  return workers === 1 ? {} : { thread: mainThread, isShared: true };
}

/** At this rate, a table of 32 MiB is swept once in a minute or two. */
const sweepIntervalMs = 100;

/** Removes what has expired from the table, in portions. Returns the function that ends it. */
export function sweepRegularly({ maintenance }: CounterTable, { monotonicMs }: Clock): () => void {
  const timer = setInterval(() => maintenance.sweep(monotonicMs()), sweepIntervalMs).unref();
  return () => clearInterval(timer);
}
