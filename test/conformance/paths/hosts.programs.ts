// Where others end a host after two slashes: Python's urlsplit, Node's url.parse and the URL standard themselves, beside the
// models of path-readers.ts. What any of them finds under a route is counted or refused.
import { spawnSync } from "node:child_process";
import { parse } from "node:url";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createPathReader } from "../../../src/core/request-path.ts";
import { hostReaders, landsUnder } from "../../core/path-readers.ts";

const python = "/usr/bin/python3";
const isInstalled = spawnSync(python, ["--version"]).status === 0;
const { HEADGATE_REQUIRE } = process.env;

const split = `
import json, sys
from urllib.parse import unquote, urlsplit
def path(target):
    try: return urlsplit(target).path
    except ValueError: return None
for line in sys.stdin:
    target = json.loads(line)
    print(json.dumps([path(target), path(unquote(target, "latin-1"))]))
`;

const routes = ["/v1/", "/v2/"];
const separators = ["/", "/", "/", "//", "\\", "%2f", "%5c", "%252f", "/./"];
const names = [
  ..."v2 v2 v1 V2 x h:80 u@h u:p@h @ a;b a#b a%3fb [::1] [ %76%32 %762 a%76%32 v2. v2%252e %40 : v2;a ' *".split(" "),
];
const part = fc.tuple(fc.constantFrom(...separators), fc.constantFrom(...names), fc.constantFrom("", "", "", ...names));
const targets = fc
  .tuple(
    fc.constantFrom("//", "//", "///", "/\\", "/%2f", "/%252f"),
    fc.constantFrom(...names),
    fc.array(part, { minLength: 1, maxLength: 3, size: "max" }),
  )
  .map(([beginning, host, parts]) => beginning + host + parts.flat().join(""));

/** What Node makes of it, which refuses some; null then. */
function parsedByNode(target: string): string | null {
  try {
    return parse(target, false, true).pathname;
  } catch {
    return null;
  }
}

/** Node's path has no slash where the host ends at something else. */
const decoded = (path: string): string =>
  path
    .replace(/^(?!\/)/, "/")
    .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

test.skipIf(!isInstalled && HEADGATE_REQUIRE !== "all")(
  "a route that Python, Node or the URL standard finds behind a host is counted or refused (needs python3)",
  () => {
    const sample = [...new Set(fc.sample(targets, 5_000))];
    const input = sample.map((target) => JSON.stringify(target)).join("\n");
    const { stdout } = spawnSync(python, ["-c", split], { input, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
    const byPython = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as (string | null)[]);
    expect(byPython).toHaveLength(sample.length);
    const likePython = hostReaders.find(({ name }) => name === "ends a host as Python, PHP and Java do");
    const { read } = createPathReader(routes, "/");
    let landings = 0;
    for (const [i, target] of sample.entries()) {
      const [asItStands = null] = byPython[i] ?? [];
      // Python refuses brackets that are no address.
      if (asItStands !== null) expect([target, likePython?.read(target)]).toEqual([target, asItStands || "/"]);
      const byStandard = URL.canParse(target, "http://h") ? new URL(target, "http://h").pathname : null;
      for (const path of [...(byPython[i] ?? []), parsedByNode(target), byStandard]) {
        if (path === null || landsUnder(decoded(path), routes) === undefined) continue;
        landings += 1;
        const { kind } = read(target);
        if (kind !== "route" && kind !== "ambiguous") throw new Error(`${target} is ${kind}, and read as ${path}`);
      }
    }
    expect(landings).toBeGreaterThan(1_000);
  },
);
