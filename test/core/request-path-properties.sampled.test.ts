// Whatever a backend makes of a path: what it serves from a route was counted, and what was counted there stays there.
import fc from "fast-check";
import { expect, test } from "vitest";
import { createPathReader } from "../../src/core/request-path.ts";
import { runs, scaled } from "../support/runs.ts";
import { hostReaders, landsUnder, pathReaders } from "./path-readers.ts";

const routes = ["/v1/", "/v2/"];
const { read } = createPathReader(routes, "/");

const separators = ["/", "/", "/", "/", "//", "\\", "%2f", "%2F", "%5c", "%255c", "%252f", "/./", "/%2e/"];
const names = [
  "v1",
  "v1",
  "v2",
  "V2",
  "x",
  "admin",
  "%76%31",
  "v%31",
  "%2576%2531",
  "v1;a=b",
  ";",
  "v1%3fa",
  "x%00",
  "a.b",
];
const climbs = [
  "..",
  "..",
  "..",
  "%2e%2e",
  ".%2e",
  "%2E.",
  "%252e%252e",
  "..;",
  "..;a=b",
  "..%00",
  "..\\..",
  "..%2f..",
  "..%3f",
];

const paths = fc
  .array(fc.tuple(fc.constantFrom(...separators), fc.constantFrom(...names, ...names, ...climbs)), {
    minLength: 1,
    maxLength: 7,
    size: "max",
  })
  .map((parts) => `/${parts.flat().join("").replace(/^\//, "")}`);

test("no path that any backend serves from a route is taken for one outside of it", () => {
  let landings = 0;
  fc.assert(
    fc.property(paths, (path) => {
      const { kind } = read(path);
      for (const reader of [...pathReaders, ...hostReaders]) {
        const landing = landsUnder(reader.read(path), routes);
        if (landing === undefined) continue;
        landings += 1;
        if (kind === "route" || kind === "ambiguous") continue;
        throw new Error(`a backend that ${reader.name} serves ${path} from ${landing}`);
      }
    }),
    runs(20_000),
  );
  expect(landings).toBeGreaterThan(scaled(20_000));
});

test("what a backend serves from a route is charged to a route, even if it is refused as ambiguous", () => {
  fc.assert(
    fc.property(paths, (path) => {
      const reading = read(path);
      if (reading.kind !== "ambiguous" || reading.route !== null) return;
      for (const reader of [...pathReaders, ...hostReaders]) {
        const landing = landsUnder(reader.read(path), routes);
        if (landing !== undefined) throw new Error(`a backend that ${reader.name} serves ${path} from ${landing}`);
      }
    }),
    runs(20_000),
  );
});

test("no path that is forwarded as one under a route climbs out of it, for any backend", () => {
  let forwarded = 0;
  // Empty segments, single dots and encoded letters may stand before a route: they lead nowhere else.
  const harmless = (path: string) => decodeURIComponent(path).replace(/\/(\.?\/)+/g, "/");
  fc.assert(
    fc.property(paths, (path) => {
      const reading = read(path);
      if (reading.kind !== "route") return;
      forwarded += 1;
      for (const reader of pathReaders) {
        const acted = harmless(reader.read(path));
        if (landsUnder(acted, routes) !== reading.route) {
          throw new Error(`a backend that ${reader.name} serves ${path} from ${acted}, not from ${reading.route}`);
        }
      }
    }),
    runs(20_000),
  );
  expect(forwarded).toBeGreaterThan(scaled(200));
});

test("a path with harmless escapes behind its route is read as after all readings", () => {
  const { readPlain } = createPathReader(routes, "/");
  const escapes = fc.integer({ min: 0, max: 255 }).map((byte) => `%${byte.toString(16).padStart(2, "0")}`);
  const pieces = fc.oneof(fc.constantFrom("a", ".", "v1", "/", "x", "%e4%bd%a0", "%F0%9F%98%80"), escapes, escapes);
  let read = 0;
  fc.assert(
    fc.property(fc.constantFrom("/v1/", "/V2/x", "/x/", "/"), fc.array(pieces, { maxLength: 6 }), (start, rest) => {
      const path = `${start}${rest.join("")}`;
      const plain = readPlain(path);
      if (plain === undefined || !path.includes("%")) return;
      read += 1;
      // The parameter at the end has no effect behind a route, and makes the path one that has several readings.
      expect(createPathReader(routes, "/").read(`${path};`)).toEqual(plain);
      for (const reader of pathReaders) {
        const landing = landsUnder(reader.read(path), routes);
        expect([reader.name, path, landing]).toEqual([
          reader.name,
          path,
          plain.kind === "route" ? plain.route : undefined,
        ]);
      }
    }),
    runs(10_000),
  );
  expect(read).toBeGreaterThan(scaled(300));
});
