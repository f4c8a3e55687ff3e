// Finds names that occur in a path in order, possibly with others between them: in a path that backends may read in many
// ways, such as one with `..`, each reading has some of the segments in this order.
import { codes, endsSegment, isDroppedAtEnd, isSeparator, type PathText } from "./path-text.ts";
import type { SegmentReader } from "./segment-names.ts";

/** A sequence of names. `children`: the same with one more, by its number. */
interface NameNode<N> {
  readonly children: ReadonlyMap<number, N>;
}

/**
 * Calls `onFound` for `root`, and for each node below it whose names all occur in the text in order. `text` is fully
 * decoded, and split wherever some backend splits. Takes linear time: visits each node at most once.
 */
export function searchNames<N extends NameNode<N>>(
  text: PathText,
  root: N,
  reader: SegmentReader,
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
  let state = reader.start;
  /** Before the dots and blanks at the end of the segment. */
  let trimmed = reader.start;
  let isNameOver = false;
  for (let i = 0; i <= text.length; i += 1) {
    const code = i < text.length ? (text.codes[i] ?? 0) : codes.slash;
    if (isSeparator(code)) {
      findNext(reader.nameIn(state));
      if (trimmed !== state) findNext(reader.nameIn(trimmed));
      state = reader.start;
      trimmed = reader.start;
      isNameOver = false;
    } else if (!isNameOver) {
      if (endsSegment(code)) {
        isNameOver = true;
        continue;
      }
      if (!reader.isMismatch(state)) state = reader.advance(state, code);
      if (isDroppedAtEnd(code)) continue;
      trimmed = state;
      isNameOver = reader.isMismatch(state);
    }
  }
}
