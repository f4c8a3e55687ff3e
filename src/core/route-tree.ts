// The configured routes as a tree of path segments, built once. Finding the place of a path takes linear time in the
// length of the path, whatever the number of routes.
import type { PathText } from "./path-text.ts";
import { SegmentNames, type SegmentReader, segmentsOf } from "./segment-names.ts";
import { searchNames } from "./segment-search.ts";

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

export class RouteTree implements SegmentReader {
  readonly root: RouteNode;
  /** The largest number of segments in a prefix. */
  readonly depth: number;
  readonly #routes: readonly string[];
  readonly #names: SegmentNames;

  /** `routes` are prefixes below `basePath`; each begins and ends with a slash. */
  constructor(routes: readonly string[], basePath: string) {
    const base = segmentsOf(basePath);
    const prefixes = routes.map((route) => [...base, ...segmentsOf(route)]);
    this.#routes = routes;
    this.#names = new SegmentNames(prefixes.flat());
    this.root = { parent: null, children: new Map(), place: undefined, order: Number.POSITIVE_INFINITY };
    for (const [order, prefix] of prefixes.entries()) {
      const node = this.#add(prefix);
      node.order = Math.min(node.order, order);
    }
    this.depth = Math.max(...prefixes.map((prefix) => prefix.length));
    this.#place(this.root, base.length, Number.POSITIVE_INFINITY);
  }

  get start(): number {
    return this.#names.start;
  }

  advance(state: number, code: number): number {
    return this.#names.advance(state, code);
  }

  isMismatch(state: number): boolean {
    return this.#names.isMismatch(state);
  }

  nameIn(state: number): number {
    return this.#names.nameIn(state);
  }

  /** Returns the child for the segment that ends in this state; undefined if there is none. */
  child(node: RouteNode, state: number): RouteNode | undefined {
    return node.children.get(this.#names.nameIn(state));
  }

  /** Returns the first route whose names all occur in the text in order; null if there is none. */
  routeIn(text: PathText): string | null {
    let order = Number.POSITIVE_INFINITY;
    searchNames(text, this.root, this, (node) => {
      order = Math.min(order, node.order);
    });
    return this.#routes[order] ?? null;
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
