// What a spelling of a path opens, and what it closes, before every backend of path-readers.ts, through the whole pipeline
// and without a socket. What opens (mode `off`, `unmatched: proxy`, `quota.path`, `readiness.path`) opens no more for any
// backend than it says; what closes (a limit, a token that is asked for, a policy) does so wherever one backend reads the
// path. `npm run test:nightly` tries 500,000 spellings.
import fc from "fast-check";
import { expect, test } from "vitest";
import { createAuthenticator, createDemandReader } from "../../../src/auth/authenticator.ts";
import type { AuthDemands, AuthRule } from "../../../src/core/authentication.ts";
import { readPeer } from "../../../src/core/client-address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { probeReplies } from "../../../src/core/local-reply.ts";
import { NetworkSet } from "../../../src/core/network-set.ts";
import type { Policy } from "../../../src/core/policy.ts";
import type { RequestHead, RequestRules, Verdict } from "../../../src/core/request-head.ts";
import { createPathReader } from "../../../src/core/request-path.ts";
import { RulesInForce } from "../../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { createDecide } from "../../../src/pipeline.ts";
import { hostReaders, landsUnder, pathReaders } from "../../core/path-readers.ts";
import { decided } from "../../support/decided.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { requestRules } from "../../support/request-rules.ts";
import { isNight, runs, scaled } from "../../support/runs.ts";

const routes = ["/v1/", "/v2/", "/files/"];
const quotaPath = "/v2/quota";
const readinessPath = "/files/ready";
/** Some name a whole route, some a part of one, and some any segment. */
const named = ["/v2/public/", "/v2/tasks", "/v1/", "/files/*/pass"];

const clientAddress = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const peer = readPeer("192.0.2.1", clientAddress);
interface Place {
  /** The base path, empty for none. The upstream gets the target without it. */
  readonly base: string;
  readonly routes: readonly string[];
}

const rulesAt = ({ base, routes }: Place): RequestRules =>
  requestRules({
    clientAddress,
    pathReader: createPathReader(routes, base || "/"),
    ...{ unmatched: "proxy", maxBodyBytes: 1 },
    paths: { own: base || "/", upstream: "/" },
    quota: { path: base + quotaPath, mode: "presence", routes, areCountersShared: false },
    readiness: { path: base + readinessPath, reply: { current: probeReplies.ready } },
  });

const everything = slidingPolicy({ name: "everything", limit: 1_000_000, windowMs: 100 });
/** Asked first of requests for what `named` says. One policy costs more there, and another exempts a stranger. */
const policies: readonly Policy[] = [
  everything,
  { ...everything, name: "named", cost: 10, match: { paths: named, methods: [] } },
  { ...everything, name: "exempting", exempt: ["198.51.100.0/24"] },
];

/** Returns the verdict on a request without a token. */
function pipeline(auth: AuthDemands, place: Place): (target: string) => Verdict {
  const { base, routes } = place;
  const decide = createDecide({
    rules: rulesAt(place),
    runtimeRules: new RulesInForce(),
    limiter: new PolicyLimiter(policies, { listAll: true, basePath: base || "/" }),
    authenticator: createAuthenticator(null, systemClock),
    demandOf: createDemandReader(auth, routes, base || "/"),
    refusals: null,
    nowMs: () => 0,
  });
  let nowMs = 0;
  return (target) => {
    nowMs += 1000;
    const head: RequestHead = { peer, method: "GET", target, rawHeaders: ["Host", "a"], httpVersion: "1.1" };
    return decided(decide(head, nowMs));
  };
}

const rule = (mode: AuthRule["mode"]): AuthRule => ({ mode, paths: named, methods: [], scopes: [] });
const places: readonly Place[] = [
  { base: "", routes },
  { base: "/finance", routes },
  { base: "", routes: ["/"] },
];
const gateways = places.map((place) => ({
  base: place.base,
  opens: pipeline({ mode: "presence", rules: [rule("off")] }, place),
  closes: pipeline({ mode: "off", rules: [rule("presence")] }, place),
}));

/** Whether a backend that acts on this path acts on what one of the patterns names, in their case or in any. */
function isNamed(acted: string, foldCase: boolean): boolean {
  const given = foldCase ? acted.toLowerCase() : acted;
  const segments = given.split("/").filter((segment) => segment !== "" && segment !== ".");
  return named.some((pattern) => {
    const names = pattern.split("/").filter((name) => name !== "");
    const isLong = pattern.endsWith("/") ? segments.length >= names.length : segments.length === names.length;
    return isLong && names.every((name, i) => name === "*" || name === segments[i]);
  });
}

const letters: Readonly<Record<string, readonly string[]>> = {
  i: ["%c4%b1", "%C4%B0", "%25c4%25b1", "%c3%af", "\xc4\xb1"],
  s: ["%c5%bf", "%C5%BF", "%ef%bd%93", "\xc5\xbf"],
  k: ["%e2%84%aa", "%ef%bd%8b"],
  ss: ["%c3%9f", "%e1%ba%9e"],
  fi: ["%ef%ac%81"],
};
const anyCharacter: readonly ((c: string) => string)[] = [
  (c) => c.toUpperCase(),
  (c) => c.toUpperCase(),
  (c) => `%${hexOf(c)}`,
  (c) => `%25${hexOf(c)}`,
  (c) => `%2525${hexOf(c)}`,
  (c) => `%${[...hexOf(c)].map((digit) => `%${hexOf(digit)}`).join("")}`,
  (c) => `%u00${hexOf(c)}`,
  (c) => `${c}.`,
  (c) => `${c}%20`,
  (c) => `${c}%2e`,
  (c) => `${c}%252e`,
  (c) => `${c}%2520`,
  (c) => `${c};a=b`,
  (c) => `${c}%23`,
  (c) => `${c}%3fa`,
  (c) => `${c}#`,
  (c) => `${c}%00`,
  (c) => `${c}%ff`,
];
const slashes = [
  ..."// /./ /%2e/ \\ %2f %5c %252f %255c /x/../ /x/%2e%2e/ /..%2f /../ /;/ /x;/../ /%20/ ///".split(" "),
  ..."/v1/../ /v2/../ /..;/ /x\\..\\ /.;/ //v1/ /files/a/../../".split(" "),
];
const beginnings = [
  ..."// /// /\\ /%2f /%252f //a /\\a //a:80 //u@h //u%2f@h //u\\@h //a%2fb //a%5cb //a\\b //a%252fb".split(" "),
  ..."//a%3fb //a#b //a;b //[::1] //[::1 //[::1]%2f /%2fa /%252fa //%2fa //a%20 //v1 //v2 //v1%2f@h //x/y".split(" "),
  ..."//a%23b //u:p%2f%40@h:80 //a%2e%2e //%761 //%762 /x /x/.. /./".split(" "),
];
const targets = [
  "/v2/public/x",
  "/v2/tasks",
  "/v1/login",
  "/files/a/pass",
  "/v2/secret",
  "/v2/quota",
  "/files/ready",
  "/other/x",
];

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(2, "0");
}

/** Changes a path in one place, chosen by three numbers. */
function changed(path: string, [where, kind, which]: readonly [number, number, number]): string {
  const pick = <T>(from: readonly T[]): T => from[which % from.length] as T;
  if (kind === 0) return pick(beginnings) + path;
  // The target is `/` and an escape behind a name without a slash between them, as Node's url.parse needs it.
  if (kind === 1) return path.replace(/^\/([a-z])([a-z0-9]+)/, (_, a: string, b: string) => `//h%${hexOf(a)}${b}`);
  const places = [...path.matchAll(kind < 5 ? /\//g : kind < 8 ? /ss|fi|[isk]/g : /[a-z0-9]/g)];
  const place = places[where % Math.max(places.length, 1)];
  if (place === undefined) return path;
  const text = place[0];
  const other = kind < 5 ? pick(slashes) : kind < 8 ? pick(letters[text] ?? [text]) : pick(anyCharacter)(text);
  return path.slice(0, place.index) + other + path.slice(place.index + text.length);
}

const numbers = fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 12 }), fc.nat({ max: 200 }));
const spellings = fc
  .tuple(fc.constantFrom(...targets), fc.array(numbers, { maxLength: 4, size: "max" }))
  .map(([target, changes]) => `/${changes.reduce(changed, target).replace(/^\//, "")}`);

test("what opens does so in every reading, and what closes in any", { timeout: 900_000 }, () => {
  const seen = { spellings: 0, readings: 0, unlimited: 0, opened: 0, closed: 0, ambiguous: 0, quotas: 0 };
  const fail = (name: string, path: string, acted: string, what: string): never => {
    throw new Error(`${what}: a backend that ${name} acts on ${acted} for ${path}`);
  };
  fc.assert(
    fc.property(spellings, fc.constantFrom(...gateways), (path, { base, opens, closes }) => {
      const [open, closed] = [opens(base + path), closes(base + path)];
      const { kind, route } = { ...open.parsed, kind: open.parsed.path.kind };
      seen.spellings += 1;
      seen.quotas += Number(open.localReply?.status === 200);
      // What the gateway serves itself has one spelling each.
      const isServed = path === quotaPath || path === readinessPath;
      expect([path, open.localReply?.status === 200]).toEqual([path, isServed]);
      if (isServed) return;
      const charged = new Set(closed.decision.others?.map(({ policy }) => policy.name));
      const isOpen = open.localReply === null && route !== null;
      const isUnlimited = open.localReply === null && route === null;
      const isClosed = closed.localReply !== null;
      seen.unlimited += Number(isUnlimited);
      seen.opened += Number(isOpen);
      seen.closed += Number(isClosed && kind === "route");
      seen.ambiguous += Number(kind === "ambiguous");
      for (const reader of [...pathReaders, ...hostReaders]) {
        const acted = reader.read(path.replace(/\?.*$/s, ""));
        seen.readings += 1;
        const landing = landsUnder(acted, routes);
        if (landing !== undefined && isUnlimited) fail(reader.name, path, acted, "not limited");
        // A host takes the route away from a path, and then no token is asked for.
        const isElsewhere = landing === undefined && hostReaders.includes(reader);
        if (isOpen && !isElsewhere && !isNamed(acted, false)) fail(reader.name, path, acted, "open");
        if (!isNamed(acted, true)) continue;
        if (!isClosed) fail(reader.name, path, acted, "not closed");
        if (kind === "route" && !charged.has("named")) fail(reader.name, path, acted, "not charged");
      }
    }),
    runs(isNight ? 500_000 : 20_000),
  );
  // biome-ignore lint/suspicious/noConsole: how many readings of each kind were compared
  if (isNight) console.log(JSON.stringify(seen));
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(scaled(200));
});
