// What matching a path costs, in steps instead of time: whatever the number of patterns, it must not grow faster than the
// path.
import { afterEach, describe, expect, test, vi } from "vitest";
import { PathPatterns } from "../../src/core/path-patterns.ts";
import { FullDecoding, SegmentNames, searchNames } from "../../src/core/path-text.ts";

afterEach(() => vi.restoreAllMocks());

/** All 2,046 patterns of up to ten segments that are "a" or "*". */
const patterns = Array.from({ length: 10 }, (_, i) => i + 1).flatMap((length) =>
  Array.from({ length: 2 ** length }, (_, bits) => ({
    path: `/${Array.from({ length }, (_, i) => ((bits >> i) & 1 ? "a" : "*")).join("/")}`,
    mask: 1 << (length % 32),
  })),
);
const pieces = ["/a", "/a/..", "//a", "/a;", "/%61", "%2fa", "\\a", "%252fa", "/%c5%bf", "/%e2%84%aa", "/b", "x"];

describe("2,046 patterns", () => {
  test.each(pieces)("a path of %s is compared in one step for each character", (piece) => {
    const advance = vi.spyOn(SegmentNames.prototype, "advance");
    const decode = vi.spyOn(FullDecoding.prototype, "decode");
    const path = `/${piece.repeat(8192)}`.slice(0, 8192);
    new PathPatterns(patterns, "/").match(path);
    expect(advance.mock.calls.length).toBeLessThanOrEqual(path.length);
    expect(decode.mock.calls.length).toBeLessThanOrEqual(1);
  });
});

test("a search visits each node once, however often its name occurs", () => {
  let visits = 0;
  interface Node {
    readonly children: ReadonlyMap<number, Node>;
  }
  const names = new SegmentNames(["a"]);
  // A chain of 51 nodes.
  let root: Node = { children: new Map() };
  for (let i = 0; i < 50; i += 1) root = { children: new Map([[names.numberOf("a"), root]]) };
  const text = new FullDecoding();
  text.decode("/a".repeat(5000));
  searchNames(text, root, names, () => {
    visits += 1;
  });
  expect(visits).toBe(51);
});

test("a path with one reading is compared no further than the longest pattern", () => {
  const nameIn = vi.spyOn(SegmentNames.prototype, "nameIn");
  new PathPatterns(patterns, "/").match("/a".repeat(4000));
  expect(nameIn.mock.calls.length).toBeLessThanOrEqual(12);
});
