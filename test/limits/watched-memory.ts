// A table whose memory tells what is read and written, for tests of the work of a call and of calls that are broken off.
import { vi } from "vitest";
import { CounterTable } from "../../src/limits/table/counter-table.ts";
import { lineWords } from "../../src/limits/table/layout.ts";

export interface Watch {
  /** The lines of 64 bytes that were read or written. */
  readonly lines: Set<number>;
  /** The number of words that were written. */
  stores: number;
  /** The store that is not made: an error is thrown in its place. 0: none. */
  breaksAt: number;
}

/** Thrown in place of a store. */
export class BrokenOffError extends Error {}

/** Opens a table for one thread. Its calendars cannot be used, because Atomics want the memory itself. */
export function openWatched(memory: SharedArrayBuffer, secret: Uint8Array): { table: CounterTable; watch: Watch } {
  const watch: Watch = { lines: new Set(), stores: 0, breaksAt: 0 };
  const real = Int32Array;
  vi.stubGlobal(
    "Int32Array",
    new Proxy(real, {
      construct(_target, args) {
        const array = Reflect.construct(real, args) as Int32Array;
        return args[0] === memory ? watched(array, watch) : array;
      },
    }),
  );
  try {
    return { table: new CounterTable(memory, { secret }), watch };
  } finally {
    vi.unstubAllGlobals();
  }
}

export function watched(array: Int32Array, watch: Watch): Int32Array {
  return new Proxy(array, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value === "function") return value.bind(target);
      if (name !== "length") watch.lines.add(Math.floor(Number(name) / lineWords));
      return value;
    },
    set(target, name, value) {
      watch.stores += 1;
      if (watch.stores === watch.breaksAt) throw new BrokenOffError("the thread has ended");
      watch.lines.add(Math.floor(Number(name) / lineWords));
      return Reflect.set(target, name, value, target);
    },
  });
}
