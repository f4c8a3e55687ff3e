// The configured routes as a tree of path segments, built once. Finding the place of a path takes linear time in the
// length of the path, whatever the number of routes. Segments are compared character by character, without regard to
// case, so that no part of a path has to be copied.

/** A route; null below the base path outside of all routes; undefined outside of the base path. */
export type Place = string | null | undefined;

/** A sequence of segments with which the prefix of a route begins. */
export interface RouteNode {
  readonly parent: RouteNode | null;
  /** By the number of the next segment's name. */
  readonly children: Map<number, RouteNode>;
  /** The place of the paths that end here. */
  place: Place;
  /** The index of the route that ends here; infinite if none does. */
  order: number;
}

/** States of the comparison of a segment with all names. After `mismatch`, no name can match. */
const mismatch = 0;
const segmentStart = 1;

export class RouteTree {
  readonly root: RouteNode;
  /** The largest number of segments in a prefix. */
  readonly depth: number;
  readonly #routes: readonly string[];
  readonly #names: Names;

  /** `routes` are prefixes below `basePath`; each begins and ends with a slash. */
  constructor(routes: readonly string[], basePath: string) {
    const base = segmentsOf(basePath);
    const prefixes = routes.map((route) => [...base, ...segmentsOf(route)]);
    this.#routes = routes;
    this.#names = new Names(prefixes.flat());
    this.root = { parent: null, children: new Map(), place: undefined, order: Number.POSITIVE_INFINITY };
    for (const [order, prefix] of prefixes.entries()) {
      const node = this.#add(prefix);
      node.order = Math.min(node.order, order);
    }
    this.depth = Math.max(...prefixes.map((prefix) => prefix.length));
    this.#place(this.root, base.length, Number.POSITIVE_INFINITY);
  }

  get start(): number {
    return segmentStart;
  }

  /** Returns the state after another character of a segment. */
  advance(state: number, code: number): number {
    return this.#names.next(state, code);
  }

  /** Returns whether no name begins in this way. */
  isMismatch(state: number): boolean {
    return state === mismatch;
  }

  /** Returns the child for the segment that ends in this state; undefined if there is none. */
  child(node: RouteNode, state: number): RouteNode | undefined {
    return node.children.get(this.#names.nameIn(state));
  }

  /** Starts a search for the routes whose names all occur in a path in order, possibly with others between them. */
  search(): RouteSearch {
    return new RouteSearch(this.root, this.#routes, this.#names);
  }

  #add(prefix: readonly string[]): RouteNode {
    let node = this.root;
    for (const segment of prefix) {
      const name = this.#names.numberOf(segment);
      let child = node.children.get(name);
      if (child === undefined) {
        child = { parent: node, children: new Map(), place: undefined, order: Number.POSITIVE_INFINITY };
        node.children.set(name, child);
      }
      node = child;
    }
    return node;
  }

  /** `aboveBase`: the segments between this node and the base path; `order`: the first route that contains the node. */
  #place(node: RouteNode, aboveBase: number, order: number): void {
    const first = Math.min(order, node.order);
    node.place = this.#routes[first] ?? (aboveBase > 0 ? undefined : null);
    for (const child of node.children.values()) this.#place(child, aboveBase - 1, first);
  }
}

/** Finds the first route whose names occur in a path in order. Reaches each node of the tree at most once. */
export class RouteSearch {
  readonly #names: Names;
  readonly #routes: readonly string[];
  /** The children of reached nodes that have not been reached yet, by the number of their name. */
  readonly #awaited: (RouteNode[] | undefined)[] = [];
  #order = Number.POSITIVE_INFINITY;

  constructor(root: RouteNode, routes: readonly string[], names: Names) {
    this.#names = names;
    this.#routes = routes;
    this.#reach(root);
  }

  /** Adds the segment that ends in this state. */
  add(state: number): void {
    const name = this.#names.nameIn(state);
    const nodes = this.#awaited[name];
    if (nodes === undefined) return;
    this.#awaited[name] = undefined;
    for (const node of nodes) this.#reach(node);
  }

  get route(): string | null {
    return this.#routes[this.#order] ?? null;
  }

  #reach(node: RouteNode): void {
    this.#order = Math.min(this.#order, node.order);
    for (const [name, child] of node.children) {
      const nodes = this.#awaited[name];
      if (nodes === undefined) this.#awaited[name] = [child];
      else nodes.push(child);
    }
  }
}

/** An automaton that recognizes the names of all segments. */
class Names {
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

  next(state: number, code: number): number {
    const column = this.#columns[code] ?? 0;
    return column === 0 ? mismatch : (this.#table[state * this.#width + column] ?? mismatch);
  }

  nameIn(state: number): number {
    return this.#ends[state] ?? 0;
  }
}

function segmentsOf(prefix: string): string[] {
  return prefix
    .toLowerCase()
    .split("/")
    .filter((segment) => segment !== "");
}
