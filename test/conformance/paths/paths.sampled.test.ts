// Every spelling of the path corpus (in `npm test` each class and a part of the pairs), sent to the gateway and seen by the
// upstream: what any backend would serve from a route was counted or refused, what was counted stays under its route for every
// backend, and what arrives arrives byte for byte.
import { describe, expect, test } from "vitest";
import { landsUnder, pathReaders } from "../../core/path-readers.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { inFullOr } from "../../support/runs.ts";
import { startRecordingUpstream } from "../recording-upstream.ts";
import { singleSpellingsOf, spellingsOf } from "./spellings.ts";

const cleanup = useCleanup();
const routes = ["/v1/", "/v2/"];
const limit = 1_000_000;

interface Outcome {
  readonly target: string;
  readonly status: number;
  readonly isCounted: boolean;
  /** The target that the upstream saw; null if it saw nothing. */
  readonly arrived: string | null;
}

async function send(targets: readonly string[], unmatched: "reject" | "proxy"): Promise<Outcome[]> {
  const upstream = cleanup(await startRecordingUpstream());
  const policies = [slidingPolicy({ limit, windowMs: 3_600_000 })];
  const overrides = { policies, unmatched, drain: { timeoutMs: 0 }, log: { access: false } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
  let client = new RawConnection(gateway.traffic.port);
  cleanup(() => client.destroy());
  let remaining = limit;
  const outcomes: Outcome[] = [];
  for (const target of targets) {
    client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n`);
    const { status, rawHeaders } = await client.read();
    const left = Number(valuesOf(rawHeaders, "RateLimit-Remaining")[0]);
    const [request, ...more] = upstream.take();
    expect(more).toEqual([]);
    const arrived = request?.lines[0]?.slice("GET ".length, -" HTTP/1.1".length) ?? null;
    outcomes.push({ target, status, isCounted: left === remaining - 1, arrived });
    remaining = left;
    if (!valuesOf(rawHeaders, "Connection").includes("close")) continue;
    client.destroy();
    client = new RawConnection(gateway.traffic.port);
  }
  client.destroy();
  return outcomes;
}

const pathOf = (target: string): string => target.replace(/\?.*$/s, "");
/** What the readers make of a path is asked of each spelling in several tests. */
const known = new Map<string, string[]>();
const landings = (target: string): string[] => {
  const found = known.get(target) ?? pathReaders.flatMap(({ read }) => landsUnder(read(pathOf(target)), routes) ?? []);
  known.set(target, found);
  return found;
};
/** Empty segments, single dots and encoded letters before a route lead nowhere else. */
const harmless = (path: string): string => {
  const decoded = path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return decoded.replace(/\/(\.?\/)+/g, "/");
};

/** Of the pairs of classes every so manieth is tried. The list has periods of 76 and 55, so that 7 meets each class of a pair. */
const stride = inFullOr(1, 7);

describe.each([
  ["/v1/", "v1", "v2"],
  ["/v2/", "v2", "v1"],
])("%s", (_, name, other) => {
  const all = spellingsOf(name, other);
  const single = new Set(singleSpellingsOf(name, other));
  const spellings = all.filter((spelling, i) => i % stride === 0 || single.has(spelling));

  test("the corpus has at least 500 spellings, of which hundreds land under a route", () => {
    expect(spellings.length).toBeGreaterThanOrEqual(500);
    expect(spellings.filter((target) => landings(target).length > 0).length).toBeGreaterThan(500);
  });

  test.each(["reject", "proxy"] as const)("unmatched: %s", async (unmatched) => {
    const outcomes = await send(spellings, unmatched);
    const wrong = outcomes.flatMap((outcome) => {
      const flaw = findFlaw(outcome, unmatched);
      return flaw === null ? [] : [`${outcome.target} (${outcome.status}): ${flaw}`];
    });
    expect(wrong).toEqual([]);
    // Neither is the corpus refused as a whole, nor does it pass as a whole.
    for (const status of [200, 400]) expect(outcomes.filter((one) => one.status === status).length).toBeGreaterThan(50);
  });
});

function findFlaw({ target, status, isCounted, arrived }: Outcome, unmatched: "reject" | "proxy"): string | null {
  if ((status === 200) !== (arrived !== null)) return "answered by someone else";
  if (arrived !== null && arrived !== target) return `arrived as ${arrived}`;
  if (landings(target).length > 0 && !isCounted) return "served from a route by some backend, and not counted";
  if (arrived === null) return null;
  if (!isCounted) return unmatched === "reject" ? "arrived without being counted" : null;
  const places = new Set(pathReaders.map(({ read }) => landsUnder(harmless(read(pathOf(target))), routes)));
  return places.size === 1 ? null : `backends serve it from ${[...places].join(" and ")}`;
}

test.each(["reject", "proxy"] as const)("two slashes begin a path, not a host (unmatched: %s)", async (unmatched) => {
  const elsewhere = unmatched === "reject" ? 404 : 200;
  const expected: Record<string, [status: number, isCounted: boolean]> = {
    "//v2/x": [200, true],
    "///v2/x": [200, true],
    "//v2/v2/x": [200, true],
    "/%2fv2/x": [400, true],
    "//host/v2/x": [400, true],
    "//host:80/v2/x": [400, true],
    "//user@host/v2/x": [400, true],
    "/%2fhost/v2/x": [400, true],
    "/\\host/v2/x": [400, true],
    "//v1/v2/x": [400, true],
    "//a%2fb/v2/x": [400, true],
    "//a\\b/v2/x": [400, true],
    "//u%2f@host/v2/x": [400, true],
    "//a%252fv2/x": [400, true],
    "/v2%252e/x": [400, true],
    "//a%2fb/x": [elsewhere, false],
    "//host/x": [elsewhere, false],
    "//host": [elsewhere, false],
  };
  const outcomes = await send(Object.keys(expected), unmatched);
  for (const { target, status, isCounted, arrived } of outcomes) {
    expect([target, status, isCounted]).toEqual([target, ...(expected[target] ?? [])]);
    expect(arrived).toBe(status === 200 ? target : null);
  }
});

test("valid targets arrive byte for byte", async () => {
  const targets = [
    "/v2/x",
    "/v2",
    "/v1/",
    "/v2/a/b/c/",
    "/v2/x?",
    "/v2/x?a=b&c=d;e",
    "/v2/x?a[]=1&b={c}|d",
    "/v2/x?q=%2e%2e/%00",
    "/v2/a:b@c!$&'()*+,=~-._",
    "/v2/%C3%A4%20b",
    "/v2/%2A%2a",
    "/v2/a..b/...",
    "/v2/x?http://b/v1/y",
    "/v2/x??#",
    `/v2/${"a/".repeat(500)}`,
    `/v2/x?${"q".repeat(8_000)}`,
  ];
  const outcomes = await send(targets, "reject");
  expect(outcomes.map(({ arrived }) => arrived)).toEqual(targets);
  expect(outcomes.every(({ isCounted }) => isCounted)).toBe(true);
});
