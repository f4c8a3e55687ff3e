// A table whose memory tells which lines of it are used, for tests of the work of a call.
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { lineWords } from "../../src/limits/table/layout.ts";
import { openWrapped } from "./wrapped-table.ts";

export interface Watch {
  /** The lines of 64 bytes that were read or written. */
  readonly lines: Set<number>;
}

/** Opens a table for one thread. Its calendars cannot be used, because Atomics want the memory itself. */
export function openWatched(memory: SharedArrayBuffer, secret: Uint8Array): { table: CounterTable; watch: Watch } {
  const watch: Watch = { lines: new Set() };
  return { table: openWrapped(memory, { secret }, (words) => watched(words, watch)), watch };
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
