// Finds the patterns that a path matches in any way in which a backend may read it. A pattern is a path of names; "*" is
// any one segment, and a slash at the end makes it a prefix. Matching too much is safe, matching too little is not.
// Takes linear time in the length of the path.
import {
  codes,
  droppedEnd,
  FullDecoding,
  type PathText,
  plainPath,
  plainWithEscapes,
  SegmentNames,
  searchNames,
  segmentsOf,
  withAsciiLetters,
} from "./path-text.ts";

interface PathPattern {
  readonly path: string;
  /** The bits that are set in the result if a path matches. */
  readonly mask: number;
}

/** A sequence of names with which patterns begin. */
interface PatternNode {
  /** By the number of the next segment's name. */
  readonly children: Map<number, PatternNode>;
  /** The node after any segment. */
  any: PatternNode | null;
  /** The bits of the patterns that end here. */
  ends: number;
  /** The bits of the prefixes that end here. */
  contains: number;
}

export class PathPatterns {
  readonly #names: SegmentNames;
  readonly #root = newNode();
  /** The same without "*", which makes a search for the other names match more. */
  readonly #namesAlone = newNode();
  readonly #decoded = new FullDecoding();
  /** The nodes that the segments of a path lead to, and those of the next segment; used again for each path. */
  #reached: PatternNode[] = [];
  #next: PatternNode[] = [];

  /** The patterns are below `basePath`. */
  constructor(patterns: readonly PathPattern[], basePath: string) {
    const split = patterns.map(({ path, mask }) => ({
      segments: [...segmentsOf(basePath), ...segmentsOf(path)],
      ends: mask,
      contains: path.endsWith("/") ? mask : 0,
    }));
    this.#names = new SegmentNames(split.flatMap(({ segments }) => segments));
    for (const { segments, ends, contains } of split) {
      const node = this.#add(this.#root, segments);
      node.ends |= ends;
      node.contains |= contains;
      this.#add(this.#namesAlone, withoutWildcards(segments)).ends |= ends;
    }
  }

  /** Returns whether all backends read the path in the same way, so that it matches no more than it seems to. */
  static hasOneReading(path: string): boolean {
    return !droppedEnd.test(path) && (plainPath.test(path) || plainWithEscapes.test(path));
  }

  /** Returns the bits of all patterns that the path matches. */
  match(path: string): number {
    const hasOneReading = !droppedEnd.test(path);
    if (hasOneReading && plainPath.test(path)) return this.#matchSegments(path);
    this.#decoded.decode(path);
    const text = withAsciiLetters(this.#decoded);
    const isPlain = hasOneReading && plainWithEscapes.test(path);
    return isPlain ? this.#matchSegments(stringOf(text)) : this.#findNames(text);
  }

  /** Matches a path that has one reading. */
  #matchSegments(path: string): number {
    this.#reached.length = 0;
    this.#reached.push(this.#root);
    let mask = this.#root.contains;
    let state = this.#names.start;
    let segmentAt = 1;
    for (let i = 1; i <= path.length; i += 1) {
      const code = i < path.length ? path.charCodeAt(i) : codes.slash;
      if (code !== codes.slash) {
        state = this.#names.advance(state, code);
        continue;
      }
      // A slash at the end makes no segment.
      if (i > segmentAt) mask |= this.#step(this.#names.nameIn(state));
      if (this.#reached.length === 0) return mask;
      state = this.#names.start;
      segmentAt = i + 1;
    }
    for (const { ends } of this.#reached) mask |= ends;
    return mask;
  }

  /** Goes on to the nodes after a segment. Returns the bits of their prefixes. */
  #step(name: number): number {
    let mask = 0;
    this.#next.length = 0;
    for (const { children, any } of this.#reached) {
      const child = children.get(name);
      if (child !== undefined) this.#next.push(child);
      if (any !== null) this.#next.push(any);
    }
    for (const { contains } of this.#next) mask |= contains;
    [this.#reached, this.#next] = [this.#next, this.#reached];
    return mask;
  }

  /** Matches a path that has many readings: each of them has the names of its segments in this order. */
  #findNames(text: PathText): number {
    let mask = 0;
    searchNames(text, this.#namesAlone, this.#names, ({ ends }) => {
      mask |= ends;
    });
    return mask;
  }

  #add(root: PatternNode, segments: readonly string[]): PatternNode {
    let node = root;
    for (const segment of segments) {
      if (segment === "*") {
        node.any ??= newNode();
        node = node.any;
        continue;
      }
      const name = this.#names.numberOf(segment);
      const child = node.children.get(name) ?? newNode();
      node.children.set(name, child);
      node = child;
    }
    return node;
  }
}

function newNode(): PatternNode {
  return { children: new Map(), any: null, ends: 0, contains: 0 };
}

function withoutWildcards(segments: readonly string[]): readonly string[] {
  return segments.filter((segment) => segment !== "*");
}

function stringOf({ codes: text, length }: PathText): string {
  let string = "";
  for (let i = 0; i < length; i += 1) string += String.fromCharCode(text[i] ?? 0);
  return string;
}
