// A thread that ends at the n-th store to a table, without a thread: from that store on nothing of it reaches the
// memory, the freeing of its locks included. What `worker.terminate()` does at an instant that nobody can choose.
import type { CounterTable } from "../../../src/limits/table/counter-table.ts";
import type { TableOptions } from "../../../src/limits/table/eviction.ts";
import { openWrapped } from "../wrapped-table.ts";

class DeathError extends Error {}

const realAtomics = { ...(Object.fromEntries(names(Atomics)) as unknown as typeof Atomics) };

function names(object: object): [string, unknown][] {
  return Object.getOwnPropertyNames(object).map((name) => [name, Reflect.get(object, name)]);
}

export class MortalThread {
  /** Stores of the last `run`. */
  stores = 0;
  readonly table: CounterTable;
  #lifetime = Number.POSITIVE_INFINITY;
  #isGhost = false;
  readonly #wrapped = new WeakMap<object, Int32Array>();

  constructor(memory: SharedArrayBuffer, options: TableOptions) {
    this.table = openWrapped(memory, options, (words) => this.#wrap(words));
  }

  /** Runs `use` until `lifetime` stores have been made. Returns whether it came to its end. */
  run(lifetime: number, use: () => void): boolean {
    this.#lifetime = lifetime;
    this.stores = 0;
    const unwrap = this.#atomics();
    try {
      use();
      return true;
    } catch (error) {
      if (!(error instanceof DeathError)) throw error;
      // The next run is that of another thread, which holds nothing.
      this.#isGhost = true;
      this.table.locks.release();
      this.#isGhost = false;
      return false;
    } finally {
      unwrap();
    }
  }

  /** Returns whether a store reaches the memory. */
  #stores(): boolean {
    if (this.#isGhost) return false;
    if (this.stores === this.#lifetime) throw new DeathError();
    this.stores += 1;
    return true;
  }

  #wrap(words: Int32Array): Int32Array {
    const wrapped = new Proxy(words, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
      set: (target, name, value) => {
        if (this.#stores()) target[Number(name)] = value;
        return true;
      },
    });
    this.#wrapped.set(wrapped, words);
    return wrapped;
  }

  /** Lets Atomics know the wrapped words. Returns what undoes it. */
  #atomics(): () => void {
    const reading = new Set(["load", "notify"]);
    for (const name of ["load", "store", "add", "exchange", "compareExchange", "notify", "wait"] as const) {
      const real = realAtomics[name] as (...args: unknown[]) => unknown;
      Reflect.set(Atomics, name, (words: object, ...rest: unknown[]) => {
        const inner = this.#wrapped.get(words);
        if (inner !== undefined && !reading.has(name) && !this.#stores()) return 0;
        return real(inner ?? words, ...rest);
      });
    }
    return () => Object.assign(Atomics, realAtomics);
  }
}
