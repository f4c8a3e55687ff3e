// An automaton that recognizes the names of path segments. Compares them character by character, without regard to case,
// so that no part of a path has to be copied.

/** States of the comparison of a segment with all names. After `mismatch`, no name can match. */
const mismatch = 0;
const segmentStart = 1;

export interface SegmentReader {
  /** The state before the first character of a segment. */
  readonly start: number;
  /** Returns the state after another character of a segment. */
  advance(state: number, code: number): number;
  /** Returns whether no name begins in this way. */
  isMismatch(state: number): boolean;
  /** Returns the number of the name that ends in this state; 0 if none does. */
  nameIn(state: number): number;
}

export class SegmentNames implements SegmentReader {
  readonly start = segmentStart;
  readonly #numbers = new Map<string, number>();
  /** By character: its column in the table; 0 for one that is in no name. */
  readonly #columns = new Uint8Array(0x101);
  readonly #width: number;
  /** By state and column: the next state. */
  readonly #table: Uint32Array;
  /** By state: the number of the name that ends in it, or 0. */
  readonly #ends: Uint32Array;

  constructor(segments: readonly string[]) {
    const names = [...new Set(segments)];
    const text = names.join("");
    const alphabet = [...new Set(text)];
    for (let code = 0; code < 0x100; code += 1) {
      this.#columns[code] = alphabet.indexOf(String.fromCharCode(code).toLowerCase()) + 1;
    }
    this.#width = alphabet.length + 1;
    this.#table = new Uint32Array((text.length + 2) * this.#width);
    this.#ends = new Uint32Array(text.length + 2);
    let states = 2;
    for (const [i, name] of names.entries()) {
      let state = segmentStart;
      for (const character of name) {
        const at = state * this.#width + alphabet.indexOf(character) + 1;
        if (this.#table[at] === mismatch) {
          this.#table[at] = states;
          states += 1;
        }
        state = this.#table[at] ?? mismatch;
      }
      this.#ends[state] = i + 1;
      this.#numbers.set(name, i + 1);
    }
  }

  numberOf(segment: string): number {
    return this.#numbers.get(segment) ?? 0;
  }

  advance(state: number, code: number): number {
    const column = this.#columns[code] ?? 0;
    return column === 0 ? mismatch : (this.#table[state * this.#width + column] ?? mismatch);
  }

  isMismatch(state: number): boolean {
    return state === mismatch;
  }

  nameIn(state: number): number {
    return this.#ends[state] ?? 0;
  }
}

/** Returns the names in a prefix, in lower case. */
export function segmentsOf(prefix: string): string[] {
  return prefix
    .toLowerCase()
    .split("/")
    .filter((segment) => segment !== "");
}
