// Finds the patterns that a path matches in any way in which a backend may read it, and those that it matches in all of
// them. A pattern is a path of names; "*" is any one segment, and a slash at the end makes it a prefix. Matching too much
// is safe for a rule that charges or refuses, and matching too little for a rule that opens a path. Takes linear time in
// the length of the path.
import {
  codes,
  droppedEnd,
  FullDecoding,
  hostBeforeEscape,
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

/** Patterns and the names in them. */
interface PatternTree {
  readonly names: SegmentNames;
  readonly root: PatternNode;
}

export class PathPatterns {
  /** Empty for none. */
  readonly #base: string;
  readonly #tree: PatternTree;
  /** The same patterns in their own case. */
  readonly #exact: PatternTree;
  /** The same without "*", which makes a search for the other names match more. */
  readonly #namesAlone = newNode();
  readonly #decoded = new FullDecoding();
  /** The nodes that the segments of a path lead to, and those of the next segment; used again for each path. */
  #reached: PatternNode[] = [];
  #next: PatternNode[] = [];

  /** The patterns are below `basePath`. */
  constructor(patterns: readonly PathPattern[], basePath: string) {
    this.#base = basePath === "/" ? "" : basePath;
    const below = patterns.map(({ path, mask }) => ({ path: basePath + path, mask }));
    const folded = below.map(({ path, mask }) => ({ path: path.toLowerCase(), mask }));
    this.#exact = treeOf(below, true);
    this.#tree = treeOf(folded, false);
    for (const { path, mask } of folded) {
      const names = segmentsOf(path).filter((segment) => segment !== "*");
      addTo(this.#namesAlone, names, this.#tree.names).ends |= mask;
    }
  }

  /** Returns the bits of all patterns that the path matches in some reading. */
  match(path: string): number {
    if (droppedEnd.test(path) || !plainPath.test(path)) return this.#matchOdd(path);
    return this.#matchSegments(path, this.#tree);
  }

  /**
   * Returns the bits of the patterns that the path matches in every reading. Some backends distinguish case or decode
   * nothing, so the path must have the names as they are written.
   */
  matchInAll(path: string): number {
    const hasOneReading = !droppedEnd.test(path) && (plainPath.test(path) || plainWithEscapes.test(path));
    return hasOneReading ? this.#matchSegments(path, this.#exact) : 0;
  }

  #matchOdd(path: string): number {
    this.#decoded.decode(path);
    const text = withAsciiLetters(this.#decoded);
    const isPlain = !droppedEnd.test(path) && plainWithEscapes.test(path);
    return isPlain ? this.#matchSegments(stringOf(text), this.#tree) : this.#findNames(text) | this.#behindHost(path);
  }

  /** Returns the bits of the patterns that are found only if the first name is cut where a host may end. */
  #behindHost(path: string): number {
    const base = path.startsWith(this.#base) ? this.#base : "";
    const host = hostBeforeEscape.exec(path.slice(base.length))?.[0] ?? "";
    // Without a character of a host nothing is cut.
    if (host.length <= 2) return 0;
    this.#decoded.decode(`${base}/${path.slice(base.length + host.length)}`);
    return this.#findNames(withAsciiLetters(this.#decoded));
  }

  /** Matches a path whose segments are the same for all backends. */
  #matchSegments(path: string, { names, root }: PatternTree): number {
    this.#reached.length = 0;
    this.#reached.push(root);
    let mask = root.contains;
    let state = names.start;
    let segmentAt = 1;
    for (let i = 1; i <= path.length; i += 1) {
      const code = i < path.length ? path.charCodeAt(i) : codes.slash;
      if (code !== codes.slash) {
        state = names.advance(state, code);
        continue;
      }
      // A slash at the end makes no segment.
      if (i > segmentAt) mask |= this.#step(names.nameIn(state));
      if (this.#reached.length === 0) return mask;
      state = names.start;
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
    searchNames(text, this.#namesAlone, this.#tree.names, ({ ends }) => {
      mask |= ends;
    });
    return mask;
  }
}

function treeOf(patterns: readonly PathPattern[], keepsCase: boolean): PatternTree {
  const names = new SegmentNames(
    patterns.flatMap(({ path }) => segmentsOf(path)),
    keepsCase,
  );
  const root = newNode();
  for (const { path, mask } of patterns) {
    const node = addTo(root, segmentsOf(path), names);
    node.ends |= mask;
    if (path.endsWith("/")) node.contains |= mask;
  }
  return { names, root };
}

function addTo(root: PatternNode, segments: readonly string[], names: SegmentNames): PatternNode {
  let node = root;
  for (const segment of segments) {
    if (segment === "*") {
      node.any ??= newNode();
      node = node.any;
      continue;
    }
    const name = names.numberOf(segment);
    const child = node.children.get(name) ?? newNode();
    node.children.set(name, child);
    node = child;
  }
  return node;
}

function newNode(): PatternNode {
  return { children: new Map(), any: null, ends: 0, contains: 0 };
}

function stringOf({ codes: text, length }: PathText): string {
  let string = "";
  for (let i = 0; i < length; i += 1) string += String.fromCharCode(text[i] ?? 0);
  return string;
}
