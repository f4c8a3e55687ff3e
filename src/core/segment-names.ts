// Finds names among the segments of a path. An automaton compares them character by character, without regard to case, so
// that no part of a path has to be copied.
import { codes, endsSegment, isDroppedAtEnd, isSeparator, type PathText } from "./path-text.ts";

/** States of the comparison of a segment with all names. After `mismatch`, no name can match. */
const mismatch = 0;
const segmentStart = 1;

export class SegmentNames {
  /** The state before the first character of a segment. */
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

  /** Returns the state after another character of a segment. */
  advance(state: number, code: number): number {
    const column = this.#columns[code] ?? 0;
    return column === 0 ? mismatch : (this.#table[state * this.#width + column] ?? mismatch);
  }

  /** Returns whether no name begins in this way. */
  isMismatch(state: number): boolean {
    return state === mismatch;
  }

  /** Returns the number of the name that ends in this state; 0 if none does. */
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

/** A sequence of names. `children`: the same with one more, by its number. */
interface NameNode<N> {
  readonly children: ReadonlyMap<number, N>;
}

/**
 * Calls `onFound` for `root`, and for each node below it whose names all occur in the text in order, possibly with others
 * between them. A path that backends may read in many ways, such as one with `..`, has some of its segments in this order in
 * each reading. `text` is fully decoded, and split wherever some backend splits. Takes linear time: visits each node at most
 * once.
 */
export function searchNames<N extends NameNode<N>>(
  text: PathText,
  root: N,
  names: SegmentNames,
  onFound: (node: N) => void,
): void {
  /** The children of found nodes that have not been found yet, by the number of their name. */
  const awaited: (N[] | undefined)[] = [];
  const find = (node: N): void => {
    onFound(node);
    for (const [name, child] of node.children) {
      const nodes = awaited[name];
      if (nodes === undefined) awaited[name] = [child];
      else nodes.push(child);
    }
  };
  const findNext = (name: number): void => {
    const nodes = awaited[name];
    awaited[name] = undefined;
    for (const node of nodes ?? []) find(node);
  };
  find(root);
  let state = names.start;
  /** Before the dots and blanks at the end of the segment. */
  let trimmed = names.start;
  let isNameOver = false;
  for (let i = 0; i <= text.length; i += 1) {
    const code = i < text.length ? (text.codes[i] ?? 0) : codes.slash;
    if (isSeparator(code)) {
      findNext(names.nameIn(state));
      if (trimmed !== state) findNext(names.nameIn(trimmed));
      state = names.start;
      trimmed = names.start;
      isNameOver = false;
    } else if (!isNameOver) {
      if (endsSegment(code)) {
        isNameOver = true;
        continue;
      }
      if (!names.isMismatch(state)) state = names.advance(state, code);
      if (isDroppedAtEnd(code)) continue;
      trimmed = state;
      isNameOver = names.isMismatch(state);
    }
  }
}
