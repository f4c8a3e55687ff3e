// A table whose memory tells which lines of it are used, for tests of the work of a call.
import { vi } from "vitest";
import { CounterTable } from "../../src/limits/table/counter-table.ts";
import { lineWords } from "../../src/limits/table/layout.ts";

export interface Watch {
  /** The lines of 64 bytes that were read or written. */
  readonly lines: Set<number>;
}

/** Opens a table for one thread. Its calendars cannot be used, because Atomics want the memory itself. */
export function openWatched(memory: SharedArrayBuffer, secret: Uint8Array): { table: CounterTable; watch: Watch } {
  const watch: Watch = { lines: new Set() };
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

function watched(array: Int32Array, { lines }: Watch): Int32Array {
  return new Proxy(array, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value === "function") return value.bind(target);
      if (name !== "length") lines.add(Math.floor(Number(name) / lineWords));
      return value;
    },
    set(target, name, value) {
      lines.add(Math.floor(Number(name) / lineWords));
      return Reflect.set(target, name, value, target);
    },
  });
}
