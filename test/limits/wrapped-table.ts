// A table whose words are wrapped, for tests that have to know of each of its reads or stores.
import { CounterTable } from "../../src/limits/table/counter-table.ts";
import type { TableOptions } from "../../src/limits/table/eviction.ts";

/** `wrap`: makes what the table uses as its words. */
export function openWrapped(
  memory: SharedArrayBuffer,
  options: TableOptions,
  wrap: (words: Int32Array) => Int32Array,
): CounterTable {
  const real = Int32Array;
  globalThis.Int32Array = new Proxy(real, {
    construct(target, args) {
      const words = Reflect.construct(target, args) as Int32Array;
      return args[0] === memory ? wrap(words) : words;
    },
  });
  try {
    return new CounterTable(memory, options);
  } finally {
    globalThis.Int32Array = real;
  }
}
