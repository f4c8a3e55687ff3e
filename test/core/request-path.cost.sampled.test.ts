// What reading a path costs, in steps instead of time: a path under no route is read free of charge, so its reading must
// take time in its length, whatever the number of routes.
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { FullDecoding, SegmentNames } from "../../src/core/path-text.ts";
import { createPathReader, RouteTree } from "../../src/core/request-path.ts";
import { runs } from "../support/runs.ts";

afterEach(() => vi.restoreAllMocks());

const pieces = [
  "/\\%252525252f%5c;a%2f\\/\\/\\/",
  "/..",
  "/./a/../",
  "%252f",
  "%25",
  "25",
  "/;",
  "\\;%2f?",
  "//",
  "/api",
  "\\api",
  "%2fv1",
  "%c0%ae",
  "/a.",
  "a%20",
  ".%2e%20",
  "%u0061",
  "%u",
  "%u%30%30%75",
  "%e4%b8%ad",
];
const beginnings = ["/", "/%2f", "/\\", "/finance/api/v1/", "/%252525252541/", "/%2576%2531\\;?%2f"];
const hostilePaths = beginnings.flatMap((beginning) =>
  pieces.map((piece) => `${beginning}${piece.repeat(8192)}`.slice(0, 8192)),
);
const manyRoutes = Array.from({ length: 64 }, (_, i) => `/api/v${i}/`);

describe.each([
  ["2 routes", ["/v1/", "/v2/"], "/"],
  ["64 routes below a base path", manyRoutes, "/finance"],
  ["64 routes of which each begins with the same names", manyRoutes.map((route) => `/api/api${route}`), "/finance/eu"],
])("%s", (_, routes, basePath) => {
  test("a path is compared with all routes in at most 4 steps for each character", () => {
    const advance = vi.spyOn(SegmentNames.prototype, "advance");
    const child = vi.spyOn(RouteTree.prototype, "child");
    const { read } = createPathReader(routes, basePath);
    for (const path of hostilePaths) {
      advance.mockClear();
      child.mockClear();
      read(path);
      const steps = advance.mock.calls.length + child.mock.calls.length;
      if (steps > 4 * path.length) throw new Error(`${steps} steps for ${path.slice(0, 60)}…`);
    }
  });

  test("a path is decoded at most four times: with and without its host, and the ends of its names", () => {
    const decode = vi.spyOn(FullDecoding.prototype, "decode");
    const { read } = createPathReader(routes, basePath);
    for (const path of hostilePaths) {
      decode.mockClear();
      read(path);
      expect(decode.mock.calls.length).toBeLessThanOrEqual(4);
    }
  });
});

test("a longer target than is accepted is read in the same way", () => {
  const { read } = createPathReader(["/v1/"], "/");
  expect(read(`/%76%31/${"%2d".repeat(8000)}`)).toEqual({ kind: "route", route: "/v1/" });
  expect(read(`/${"x/".repeat(8000)}%2e%2e/v1`)).toEqual({ kind: "ambiguous", route: "/v1/" });
});

test("decoding in one pass equals decoding again and again", () => {
  const parts = ["%", "25", "2", "5", "2f", "%25", "%2f", "%41", "e", "%e4", "/", "x", "%%", "%zz"].concat([
    "%u",
    "u",
    "00",
    "%u0025",
    "%u0032",
    "%u002f",
    "%uff0f",
    "%uFF35",
    "%U2215",
    "%u0101",
    "%75",
  ]);
  const unicode = (unit: number): number => {
    const code = unit >= 0xff01 && unit <= 0xff5e ? unit - 0xfee0 : unit;
    return code === 0x2215 || code === 0x2044 ? 0x2f : Math.min(code, 0xff);
  };
  const decodeOnce = (text: string) =>
    text.replace(/%u([0-9a-f]{4})|%([0-9a-f]{2})/gi, (_, unit: string | undefined, hex: string) => {
      const code = unit === undefined ? Number.parseInt(hex, 16) : unicode(Number.parseInt(unit, 16));
      return code === 0x2f ? "\u0100" : String.fromCharCode(code);
    });
  const decoding = new FullDecoding();
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 40, size: "max" }), (chosen) => {
      const path = chosen.join("");
      let text = path;
      let depth = 0;
      for (let next = decodeOnce(text); next !== text; next = decodeOnce(text)) {
        text = next;
        depth += 1;
      }
      decoding.decode(path);
      expect(String.fromCharCode(...decoding.codes.subarray(0, decoding.length))).toBe(text);
      expect(decoding.depth).toBe(depth);
    }),
    runs(5000),
  );
});

test("the tree finds the routes that a search through all prefixes finds", () => {
  const names = fc.constantFrom("a", "b", "ab", "A", "v2.1", ".x", "é");
  const routesOf = fc.uniqueArray(
    fc.array(names, { maxLength: 3 }).map((segments) => `/${segments.map((segment) => `${segment}/`).join("")}`),
    { minLength: 1, maxLength: 8 },
  );
  const basePaths = fc.constantFrom("/", "/a", "/B/ab");
  const paths = fc.array(fc.oneof(names, fc.constantFrom("c", "abc")), { maxLength: 6 });
  fc.assert(
    fc.property(routesOf, basePaths, paths, fc.boolean(), (routes, basePath, segments, hasSlash) => {
      const base = basePath === "/" ? "" : basePath;
      const path = `/${segments.join("/")}${hasSlash && segments.length > 0 ? "/" : ""}`;
      const isBelow = (prefix: string) => `${path}/`.toLowerCase().startsWith(prefix.toLowerCase());
      const route = routes.find((each) => isBelow(base + each));
      const elsewhere = isBelow(`${base}/`) ? { kind: "unmatched" } : { kind: "outside" };
      const { read } = createPathReader(routes, basePath);
      expect(read(path)).toEqual(route === undefined ? elsewhere : { kind: "route", route });
    }),
    runs(5000),
  );
});
