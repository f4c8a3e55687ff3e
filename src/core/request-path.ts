// Finds the route of a path in every way in which a backend may read it (decode it, fold case, collapse slashes,
// resolve dots, drop parameters, drop dots and blanks at the end of names): a path that may be under a route is charged,
// and one that may be in two regions is ambiguous. The path is forwarded unchanged. Reading takes linear time in the
// length of the path, whatever the number of routes, because a path under no route spends no quota.
import {
  beginsName,
  codes,
  decodeAgain,
  decodeOnce,
  droppedEnd,
  FullDecoding,
  hostBeforeEscape,
  isDeceptive,
  isDroppedAtEnd,
  isSeparator,
  nameWithDroppedEnd,
  type PathText,
  plainPath,
  plainPathWithDots,
  plainWithEscapes,
  SegmentNames,
  searchNames,
  segmentsOf,
  withAsciiLetters,
} from "./path-text.ts";

export type PathReading =
  /** Under this route in every reading. */
  | { readonly kind: "route"; readonly route: string }
  /** Under no route in any reading, and below the base path in all of them. */
  | { readonly kind: "unmatched" }
  /** Not below the base path in any reading. */
  | { readonly kind: "outside" }
  /** The readings differ. `route` is one of those that the path may be under; null if it is under none. */
  | { readonly kind: "ambiguous"; readonly route: string | null };

/** The path is the target before the first `?`. */
export interface PathReader {
  /**
   * Reads a path in a usual spelling, which has one reading: without escapes, or with harmless ones behind its route.
   * Returns undefined for any other path, which costs more to read.
   */
  readPlain(path: string): PathReading | undefined;
  read(path: string): PathReading;
}

const maxDecodings = 4;
/** A path is ambiguous if its part up to the route is longer and unusually spelled: it has too many readings. */
const maxOddLength = 512;
const maxOddSegments = 16;

/** `routes` are prefixes below `basePath`; each begins and ends with a slash. */
export function createPathReader(routes: readonly string[], basePath: string): PathReader {
  const tree = new RouteTree(routes, basePath);
  const decoded = new FullDecoding();

  function readPlain(path: string): PathReading | undefined {
    if (plainPath.test(path)) {
      const { region, children } = plainNode(path, tree);
      // Behind a route that contains no other, nothing changes which route it is.
      const isSettled = (typeof region === "string" && children.size === 0) || !droppedEnd.test(path);
      return isSettled ? readingOf(region) : undefined;
    }
    const escapeAt = path.indexOf("%");
    if (escapeAt === -1 || !plainWithEscapes.test(path)) return undefined;
    const { region, children } = plainNode(path.slice(0, path.lastIndexOf("/", escapeAt) + 1), tree);
    return typeof region === "string" && children.size === 0 ? { kind: "route", route: region } : undefined;
  }

  function readOdd(path: string): PathReading {
    if (plainPathWithDots.test(path) && !nameWithDroppedEnd.test(path)) return compare(dotRegions(path, tree));
    decoded.decode(path);
    const isOpen = decoded.depth <= maxDecodings && !decoded.hasUnicodeEscape && !isDeceptive(decoded);
    const beginnings = isOpen && !rawBlank.test(path) ? beginningsOf(path, tree.depth) : undefined;
    if (beginnings === undefined) return { kind: "ambiguous", route: tree.routeIn(withAsciiLetters(decoded)) };
    const regions = new Set<Region>();
    const regionsOnWindows = new Set<Region>();
    for (const beginning of beginnings) {
      addRegions(regions, beginning, tree);
      const folded = withAsciiLetters(beginning);
      if (folded !== beginning) addRegions(regions, folded, tree);
      if (folded.codes.some(isDroppedAtEnd)) addRegions(regionsOnWindows, folded, tree, true);
    }
    return compareWithOther(compare(regions), routeAmong(regionsOnWindows));
  }

  /**
   * Returns a route other than `own` that a path may be under for a server which takes its first name for a host; null if
   * there is none. Servers end the host at the first `/` (Python, PHP, Java), at `\`, at an encoded slash, or at an escape
   * (Node's `url.parse`), so a route counts wherever its names stand. `readOdd` must have decoded the path, `base + below`.
   */
  function routeBehindHost(base: string, below: string, own: string | null): string | null {
    if (!isSeparator(decoded.codes[base.length + 1] ?? 0)) return null;
    const route = tree.routeIn(withAsciiLetters(decoded), own);
    const host = route === null ? hostBeforeEscape.exec(below) : null;
    if (host === null) return route;
    decoded.decode(`${base}/${below.slice(host[0].length)}`);
    return tree.routeIn(withAsciiLetters(decoded), own);
  }

  function read(path: string): PathReading {
    const plain = readPlain(path);
    if (plain !== undefined) return plain;
    const reading = readOdd(path);
    // The upstream gets the path without the base path.
    const base = basePath !== "/" && path.startsWith(basePath) ? basePath : "";
    const below = path.slice(base.length);
    if (!mayNameHost.test(below)) return reading;
    const host = plainHost.exec(below);
    if (host === null) return compareWithOther(reading, routeBehindHost(base, below, routeOf(reading)));
    const rest = base + (below.slice(host[0].length) || "/");
    return compareWithOther(reading, routeOf(readPlain(rest) ?? readOdd(rest)));
  }

  return { readPlain, read };
}

/**
 * Two bytes that are blanks in Latin-1, and in UTF-8 only stand behind others. Python's http.server (Django's runserver,
 * Flask) ends the target there. Only checks have them: our parsers refuse raw bytes in a target.
 */
const rawBlank = /(?:^|[\0-\x7f])[\x85\xa0]/;

/** After two slashes, some backends read a host, as `new URL(target, base)` does. Slashes may be encoded several times. */
const mayNameHost = /^\/[/\\%]/;

/** A host that ends at the same place for all servers, with the slashes before it. */
const plainHost = /^\/{2,}(?!\/)[A-Za-z0-9._~:@-]*(?=\/|$)/;

/** Makes the reading ambiguous if a few backends read `other`, which is another route; null: they read none. */
function compareWithOther(reading: PathReading, other: string | null): PathReading {
  const own = routeOf(reading);
  return other === null || other === own ? reading : { kind: "ambiguous", route: own ?? other };
}

function routeOf(reading: PathReading): string | null {
  return "route" in reading ? reading.route : null;
}

function routeAmong(regions: ReadonlySet<Region>): string | null {
  return [...regions].find((region) => typeof region === "string") ?? null;
}

function readingOf(region: Region): PathReading {
  if (region === undefined) return { kind: "outside" };
  return region === null ? { kind: "unmatched" } : { kind: "route", route: region };
}

function compare(regions: ReadonlySet<Region>): PathReading {
  const [first] = regions;
  // Under a route in one reading and elsewhere in another is ambiguous too.
  if (regions.size === 1) return readingOf(first);
  return { kind: "ambiguous", route: routeAmong(regions) };
}

/** Returns the deepest node that a path with one reading reaches. "/v1" is read as "/v1/", as some backends do. */
function plainNode(path: string, tree: RouteTree): RouteNode {
  const { names } = tree;
  let node = tree.root;
  let state = names.start;
  for (let i = 1; i <= path.length && node.children.size > 0; i += 1) {
    const code = i < path.length ? path.charCodeAt(i) : codes.slash;
    if (code !== codes.slash) {
      state = names.advance(state, code);
      if (names.isMismatch(state)) break;
      continue;
    }
    const child = tree.child(node, state);
    if (child === undefined) break;
    node = child;
    state = names.start;
  }
  return node;
}

/** Returns the regions of a path with dot segments: unresolved and, with `..`, resolved. */
function dotRegions(path: string, tree: RouteTree): Set<Region> {
  let node = tree.root;
  /** The number of segments below `node`, which lead to no route. */
  let below = 0;
  let unresolved: { readonly region: Region } | null = null;
  let leavesRoot = false;
  for (let start = 1; start <= path.length; ) {
    const slash = path.indexOf("/", start);
    const end = slash === -1 ? path.length : slash;
    const dots = dotsIn(path, start, end);
    const child = dots === null && below === 0 ? childOf(node, path.slice(start, end), tree) : undefined;
    // Unresolved, no route is found behind this segment.
    if (child === undefined && (dots === null || dots === 2)) unresolved ??= { region: node.region };
    if (child !== undefined) node = child;
    else if (dots === null) below += 1;
    else if (dots === 2 && below > 0) below -= 1;
    else if (dots === 2 && node.parent !== null) node = node.parent;
    // At the root, some backends ignore a `..`, and others leave the root, where there is no base path.
    else if (dots === 2) leavesRoot = true;
    start = end + 1;
  }
  const regions = new Set([(unresolved ?? node).region, node.region]);
  return leavesRoot ? regions.add(undefined) : regions;
}

/** Returns 0 for an empty segment, 1 or 2 for dots, null for a name. */
function dotsIn(path: string, start: number, end: number): 0 | 1 | 2 | null {
  if (end === start) return 0;
  if (end - start > 2 || path.charCodeAt(start) !== codes.dot) return null;
  if (end - start === 1) return 1;
  return path.charCodeAt(start + 1) === codes.dot ? 2 : null;
}

function childOf(node: RouteNode, name: string, tree: RouteTree): RouteNode | undefined {
  const { names } = tree;
  let state = names.start;
  for (let i = 0; i < name.length && !names.isMismatch(state); i += 1) state = names.advance(state, name.charCodeAt(i));
  return tree.child(node, state);
}

/**
 * Returns the parts that determine the region, decoded once, twice, and so on until nothing changes. Returns undefined
 * if a part is too long to find all its readings.
 */
function beginningsOf(path: string, depth: number): PathText[] | undefined {
  // Three characters decode to at least one, so this contains the part unless it is too long.
  let text = beginningOf(decodeOnce(path, 3 * (maxOddLength + 2)), depth);
  const beginnings: PathText[] = [];
  while (text !== undefined) {
    beginnings.push(text);
    const again = decodeAgain(text);
    if (again.length === text.length) return beginnings;
    text = beginningOf(again, depth);
  }
  return undefined;
}

/**
 * Returns the part of a decoded path that determines its region. The path has no `..`, so its route ends no later than
 * the `depth`th segment that begins like a name. Returns undefined if that part is too long.
 */
function beginningOf({ codes: text, length }: PathText, depth: number): PathText | undefined {
  let names = 0;
  for (let start = 0, segments = 0; segments <= maxOddSegments; segments += 1) {
    const slash = text.indexOf(codes.slash, start);
    const end = slash === -1 || slash >= length ? length : slash;
    if (start < end && beginsName(text[start] ?? 0)) names += 1;
    if (end > maxOddLength) return undefined;
    if (names === depth || end === length) return { codes: text, length: Math.min(end + 1, length) };
    start = end + 1;
  }
  return undefined;
}

/** What backends do with the beginning of a path. Case, empty segments and single dots are always folded. */
interface Folding {
  /** Where the path ends: a decoded `?` or `#` may cut it. */
  readonly length: number;
  readonly splitsAtBackslash: boolean;
  readonly splitsAtEncodedSlash: boolean;
  /** Parameters end at a slash, so they are dropped `early`, before other characters become slashes, or `late`. */
  readonly parameters: "kept" | "early" | "late";
  /** Whether the dots and blanks at the end of a name are dropped, as Windows does. */
  readonly dropsEnds: boolean;
}

/**
 * Adds the regions of the beginning of a decoded path. What is always folded can only add paths that are charged.
 * Everything else may move a path elsewhere, so the path is read in both ways.
 */
function addRegions(regions: Set<Region>, text: PathText, tree: RouteTree, dropsEnds = false): void {
  const present = (code: number): boolean => text.codes.subarray(0, text.length).includes(code);
  const hasParameters = present(codes.semicolon);
  const cut = text.codes.subarray(0, text.length).findIndex((code) => code === codes.question || code === codes.hash);
  for (const length of cut === -1 ? [text.length] : [text.length, cut]) {
    for (const parameters of hasParameters ? (["kept", "late", "early"] as const) : (["kept"] as const)) {
      for (const splitsAtEncodedSlash of present(codes.encodedSlash) ? [false, true] : [false]) {
        for (const splitsAtBackslash of present(codes.backslash) ? [false, true] : [false]) {
          const folding = { length, parameters, splitsAtEncodedSlash, splitsAtBackslash, dropsEnds };
          regions.add(regionOf(text.codes, folding, tree));
        }
      }
    }
  }
}

function regionOf(text: Uint16Array, folding: Folding, tree: RouteTree): Region {
  const { length, parameters, dropsEnds } = folding;
  const { names } = tree;
  let node = tree.root;
  let state = names.start;
  /** The state of the name without the dots and blanks at its end, if they are dropped. */
  let named = state;
  let size = 0;
  let last = 0;
  let isInParameters = false;
  for (let i = 0; i <= length && node.children.size > 0; i += 1) {
    const code = i < length ? (text[i] ?? 0) : codes.slash;
    const splits = splitsAt(code, folding);
    if (isInParameters && (parameters === "early" ? code !== codes.slash : !splits)) continue;
    isInParameters = code === codes.semicolon && parameters !== "kept";
    if (isInParameters) continue;
    if (!splits) {
      size += 1;
      last = code;
      state = names.advance(state, code);
      if (!dropsEnds || !isDroppedAtEnd(code)) named = state;
      continue;
    }
    // An empty segment, a single dot, or a name that is dropped as a whole leads nowhere.
    const isStep = named !== names.start && (size > 1 || last !== codes.dot);
    const child = tree.child(node, named);
    if (child === undefined && isStep) break;
    node = child ?? node;
    state = names.start;
    named = state;
    size = 0;
  }
  return node.region;
}

function splitsAt(code: number, { splitsAtBackslash, splitsAtEncodedSlash }: Folding): boolean {
  if (code === codes.encodedSlash) return splitsAtEncodedSlash;
  return code === codes.slash || (code === codes.backslash && splitsAtBackslash);
}

/** A route; null below the base path outside of all routes; undefined outside of the base path. */
type Region = string | null | undefined;

/** A sequence of segments with which the prefix of a route begins. */
interface RouteNode {
  readonly parent: RouteNode | null;
  /** By the number of the next segment's name. */
  readonly children: Map<number, RouteNode>;
  /** The region of the paths that end here. */
  region: Region;
  /** The index of the route that ends here; infinite if none does. */
  order: number;
}

/** The configured routes as a tree of path segments, built once. Its size does not change how long a path takes. */
export class RouteTree {
  readonly root: RouteNode;
  /** The largest number of segments in a prefix. */
  readonly depth: number;
  readonly names: SegmentNames;
  readonly #routes: readonly string[];

  /** `routes` are prefixes below `basePath`; each begins and ends with a slash. */
  constructor(routes: readonly string[], basePath: string) {
    const base = segmentsOf(basePath.toLowerCase());
    const prefixes = routes.map((route) => [...base, ...segmentsOf(route.toLowerCase())]);
    this.#routes = routes;
    this.names = new SegmentNames(prefixes.flat());
    this.root = { parent: null, children: new Map(), region: undefined, order: Number.POSITIVE_INFINITY };
    for (const [order, prefix] of prefixes.entries()) {
      const node = this.#add(prefix);
      node.order = Math.min(node.order, order);
    }
    this.depth = Math.max(...prefixes.map((prefix) => prefix.length));
    this.#setRegions(this.root, base.length, Number.POSITIVE_INFINITY);
  }

  /** Returns the child for the segment that ends in this state; undefined if there is none. */
  child(node: RouteNode, state: number): RouteNode | undefined {
    return node.children.get(this.names.nameIn(state));
  }

  /** Returns the first route but `own` whose names all occur in the text in order; null if there is none. */
  routeIn(text: PathText, own: string | null = null): string | null {
    let order = Number.POSITIVE_INFINITY;
    searchNames(text, this.root, this.names, (node) => {
      if (own === null || this.#routes[node.order] !== own) order = Math.min(order, node.order);
    });
    return this.#routes[order] ?? null;
  }

  #add(prefix: readonly string[]): RouteNode {
    let node = this.root;
    for (const segment of prefix) {
      const name = this.names.numberOf(segment);
      let child = node.children.get(name);
      if (child === undefined) {
        child = { parent: node, children: new Map(), region: undefined, order: Number.POSITIVE_INFINITY };
        node.children.set(name, child);
      }
      node = child;
    }
    return node;
  }

  /** `aboveBase`: the segments between this node and the base path; `order`: the first route that contains the node. */
  #setRegions(node: RouteNode, aboveBase: number, order: number): void {
    const first = Math.min(order, node.order);
    node.region = this.#routes[first] ?? (aboveBase > 0 ? undefined : null);
    for (const child of node.children.values()) this.#setRegions(child, aboveBase - 1, first);
  }
}
