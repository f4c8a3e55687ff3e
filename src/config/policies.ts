// The keys of a policy, and the policy that they become. Most of them may be left out. Words that people know from other
// gateways are answered with the key or the value that is meant. And which requests a policy or a rule is about.
import type { AuthDemands, AuthMode } from "../core/authentication.ts";
import { enumerate } from "../core/enumerate.ts";
import { fixedFieldNames } from "../core/field-names.ts";
import { type Method, toMethod } from "../core/method.ts";
import {
  calendarPeriods,
  type KeyPart,
  type LimitOverride,
  type Policy,
  type PolicyMatch,
  type Rate,
} from "../core/policy.ts";
import { listOf, type Parsed, required, secret, section, shownIfWritten, type WordsOfOthers } from "./definition.ts";
import { choice, duration, network, networkList, optional, repeatedItems, text, wholeNumber } from "./leaves.ts";
import { headerNamePattern, pathPattern, withoutDotSegment } from "./requests.ts";
import type { Refuse, Scalar } from "./written.ts";

const wordsForPolicy: WordsOfOthers = {
  "rate rateLimit rps rpm average burst tokenBucket tokensPerFill second httpReqRate": ["limit", "window"],
  "requests requestsPerUnit max maxTokens maxRequests events quota": ["limit"],
  "duration fillInterval windowMs windowSize timeWindow expire": ["window"],
  "period unit interval": ["window", "per"],
  [calendarPeriods.join(" ")]: ["limit", "window", "per"],
  tz: ["timezone"],
  "zone id": ["name"],
  "maxConcurrent connections limitConn limitConnections connCur inFlight inFlightReq amount": ["concurrency"],
  "by limitBy headerName requestHeaders keys descriptors actions sourceCriterion keyGenerator": ["key"],
  "path paths routes location prefix": ["match.paths"],
  "method methods verbs": ["match.methods"],
  "when rules if": ["match"],
  "audience authenticated anonymous consumers": ["who"],
  "weight hitsAddend": ["cost"],
  "status statuses skipFailedRequests skipSuccessfulRequests": ["charge.statuses"],
  "shadow shadowMode dryRun limitReqDryRun enforce enabled": ["mode"],
  "allow allowList whitelist limitWhitelist skip except": ["exempt"],
  "delay nodelay": "no request is queued, so leave it out",
  "ban deny block": "clients are blocked while the gateway runs: headgate block 203.0.113.7 --for 1h",
  "tiers limits clients": ["overrides"],
  "statusCode limitReqStatus denyStatus errorCode errorMessage message handler":
    "the status is always 429; errors.format chooses the body",
  "standardHeaders legacyHeaders hideClientHeaders": "fields chooses the headers of all policies",
  "redis cluster": "counters.redis is the store of all policies",
  "maxClients maxKeys": "counters.memory bounds the memory of all policies together",
};

/** Where the policies are written, and not within one. */
export const wordsForPolicies: WordsOfOthers = {
  "policy limit limits rate burst tokenBucket quotas throttle throttling": ["policies"],
  "rateLimit rateLimits rateLimiting rateLimiter limitReq limitReqZone": ["policies"],
  "plugins middlewares descriptors zone": ["policies"],
  "max average requests maxRequests requestsPerUnit points events": ["policies.0.limit"],
  "rps rpm limitRps limitRpm second minute hour day month": ["policies.0.limit"],
  "window windowMs timeWindow period duration interval": ["policies.0.window"],
  "limitConn limitConnections inFlightReq": ["policies.0.concurrency"],
  "limitBy keyGenerator sourceCriterion": ["policies.0.key"],
  "allow allowList whitelist limitWhitelist skip bypass": ["policies.0.exempt"],
  "deny denyList block blockList blacklist ban":
    "clients are blocked while the gateway runs: headgate block 203.0.113.7 --for 1h",
};

const wordsForOverride: WordsOfOthers = {
  "ip ips address cidr network host source remoteAddr": ["client"],
  "user name consumer sub": ["token", "subject"],
  "bearer digest sha256": ["token"],
  "key apiKey value": ["token", "header"],
  "max requests quota rate concurrency": ["limit"],
  "window per timezone cost":
    "an override changes the limit alone; for another time, add a policy, and exempt these clients from this one",
};

/** As many as a slot can hold, which is far more than an upstream answers at once. */
export const maxConcurrency = 65_535;

/** The table counts in words of 32 bits. */
export const maxLimit = 1_000_000_000;

/** Of a policy with `charge`: above it, admissions may be grouped in cells, and no single one can be given back. */
export const maxChargedLimit = 10_000;

const limit = optional(limitNumber());

function limitNumber() {
  const number = wholeNumber(100, { from: 1, to: maxLimit })(
    "What is admitted for one key within any window, or in each period.",
  );
  const isRate = (value: unknown): boolean => /^\d+ *(r|req[a-z]*)?(\/| per )/.test(String(value));
  return {
    ...number,
    hint: (value: Scalar) => (isRate(value) ? "a whole number (the time is in window or per)" : number.hint?.(value)),
  };
}

function period() {
  const periods = choice(
    "month",
    calendarPeriods,
  )(`Instead of window: the limit is for each calendar ${enumerate(calendarPeriods)}, and starts again at its border.`);
  const hint = `${periods.expected} (for any other length, use window)`;
  return { ...periods, hint: () => hint };
}

/** Headers whose value another part of the key reads, in the right way. */
const readElsewhere = new Map([
  ["authorization", "token"],
  ["proxy-authorization", "token"],
  ["forwarded", "client"],
  ["x-forwarded-for", "client"],
  ["x-real-ip", "client"],
  ["cf-connecting-ip", "client"],
  ["true-client-ip", "client"],
]);

/** The names of the parts in other gateways. */
const partsOfOthers: readonly (readonly [pattern: RegExp, part: string])[] = [
  [
    /^\$?(binary_)?remote_addr(ess)?$|^(source\.?|client\.?|remote_?)?ip$|^(peer|address|source|clientaddress)$/i,
    "client",
  ],
  [/^\$?http_authorization$|^(bearer|authorization|api_?key|credential|access_token)$/i, "token"],
  [/^(user|user_?id|sub|consumer|account|jwt|tenant)$/i, "token, subject or header:NAME"],
  [/^\$?(request_)?(path|uri|url|endpoint|location|service)$/i, "route, or match.paths for one path"],
  [/^header$|^\$http_/i, "header:NAME"],
  [/^(global|all|none|\*)$/i, "no part at all, as in key: []"],
];

function headerName(part: string): string | undefined {
  return /^header:(.*)$/i.exec(part)?.[1]?.toLowerCase();
}

/** A part of the key of a policy, as it is written. */
const keyPart = {
  ...text("client", {
    expected: "client, token, subject, method, route or header:NAME",
    pattern: `^(client|token|subject|method|route|[hH][eE][aA][dD][eE][rR]:${headerNamePattern}|claim:[!-~]{1,128})$`,
    parse: (part) => {
      const name = headerName(part);
      if (name === undefined) return part;
      return readElsewhere.has(name) || fixedFieldNames.takenFor(name) !== null ? undefined : `header:${name}`;
    },
  })("A part of the key; what a request lacks is replaced by the client."),
  hint: keyPartHint,
};

function keyPartHint(value: Scalar): string | undefined {
  if (typeof value !== "string") return undefined;
  const name = headerName(value);
  const better = name === undefined ? undefined : readElsewhere.get(name);
  if (better !== undefined) return `${better}, which reads this header`;
  const other = fixedFieldNames.takenFor(name ?? "");
  if (other !== null) return `another header; requests with one that can be read as ${other} are refused`;
  return partsOfOthers.find(([pattern]) => pattern.test(value))?.[1];
}

/** A path of `match`, unchanged. */
const path = {
  ...text("/", {
    expected:
      'a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \\ or ;',
    pattern: pathPattern,
    parse: (path) => (oddSegment(path) === undefined ? withoutDotSegment(path) : undefined),
  })('A path, or a prefix that ends in "/".'),
  hint: pathHint,
};

function oddSegment(path: string): string | undefined {
  return path.split("/").find((segment) => (segment.includes("*") && segment !== "*") || segment.startsWith(":"));
}

function pathHint(value: Scalar): string | undefined {
  if (typeof value !== "string") return undefined;
  const odd = oddSegment(value);
  if (odd?.includes("*")) return '"*" as a whole segment only; a path that ends in "/" is a prefix';
  if (odd !== undefined || /[{}<>]/.test(value)) return '"*" for a segment of any name';
  if (/^[~^]|[$()|\\[\]]/.test(value))
    return 'a path, because there are no regular expressions; one that ends in "/" is a prefix';
  if (/[^!-~]/.test(value)) return '"*" for a segment with blanks or letters outside of ASCII';
  return undefined;
}

const everyMethod = new Set(["*", "ANY", "ALL"]);

const method = {
  ...text<Method>("GET", {
    expected: "the name of a method in upper case, such as GET",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Z-]{1,32}$",
    parse: (name) => (everyMethod.has(name) ? undefined : toMethod(name)),
  })("The name of a method."),
  hint(value: Scalar): string | undefined {
    if (typeof value !== "string") return undefined;
    if (everyMethod.has(value.toUpperCase())) return "the name of a method; leave methods out for all of them";
    return /^[a-z]{1,32}$/i.test(value) ? `the name in upper case: ${value.toUpperCase()}` : undefined;
  },
};

const timeZone = text("UTC", {
  expected: 'a time zone of the IANA database, such as "Europe/Berlin" or "UTC"',
  pattern: "^[A-Za-z][A-Za-z0-9_+/-]{1,63}$",
  parse: (name) => (isTimeZone(name) ? name : undefined),
})("Time zone of per (IANA database); without it, UTC.");

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Somebody may have written the token itself, so only what `auth.tokensFile` has as a name is shown. */
const tokenReference = {
  ...secret(
    text("", {
      expected: "the name of a token in auth.tokensFile, or its SHA-256 digest (64 hex digits)",
      pattern: "^([0-9a-fA-F]{64}|[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63})$",
    })("Name of a token in auth.tokensFile, or its SHA-256 digest in hex, never the token itself."),
  ),
  mayBeTokenName: true,
} as const;

/** Whether it is a digest; otherwise it is a name. */
export function isTokenDigest(reference: string): boolean {
  return /^[0-9a-fA-F]{64}$/.test(reference);
}

/** The requests that a policy, or a rule about tokens, is about. */
export const matchKeys = {
  paths: listOf(path, 64, {
    items: "paths",
    flaws: (paths) => repeatedItems(paths.map((path) => path.toLowerCase())),
  })('Paths below basePath: one that ends in "/" is a prefix, "*" is one segment of any name; [] means all.'),
  methods: listOf(method, 16, { items: "methods", flaws: repeatedItems })("Methods in upper case; [] means all."),
};

const match = section("The limited requests that the policy is about; without it, all of them.", matchKeys);

const charge = section("What is charged, if it depends on the response.", {
  statuses: listOf(wholeNumber(401, { from: 100, to: 599 })("A status."), 100, {
    items: "statuses",
    flaws: repeatedItems,
  })("Only a request whose response has one of these statuses is charged; the unit is held until then."),
});

const override = section(
  "Another limit for some keys: one of client, token, subject and header, and limit.",
  {
    client: optional({
      ...network,
      description: "Address or network of clients; of several, the longest prefix applies.",
    }),
    token: optional(tokenReference),
    subject: optional(
      text("", { expected: "text of at most 256 characters", pattern: "^[^\\x00-\\x1f\\x7f]{1,256}$" })(
        "The subject of a verified token.",
      ),
    ),
    header: optional(
      secret(
        text("", {
          expected: "at most 1024 printable ASCII characters without blanks at the ends",
          pattern: "^[!-~]([ -~]{0,1022}[!-~])?$",
        })("The value of the header in key."),
      ),
    ),
    limit: required({
      ...wholeNumber(100, { from: 1, to: maxLimit })("The limit for them."),
      hint: (value) =>
        value === 0 || value === -1 || value === "unlimited"
          ? `a whole number from 1 to ${maxLimit} (for no limit, name the clients in exempt)`
          : undefined,
    }),
  },
  wordsForOverride,
);

const policy = section(
  "A rate limit: limit with window, limit with per, or concurrency.",
  {
    name: required(
      text("per-ip", {
        expected: "a name of at most 32 lower-case letters, digits and hyphens that begins with a letter",
        pattern: "^[a-z][a-z0-9-]{0,31}$",
      })("Name of the policy in metrics and logs; required, and different from all others."),
    ),
    limit,
    // Windows below a second are of use in tests only, and below 100 ms the response would be older than the window.
    window: optional(duration("60s", { from: "100ms", to: "31d" })("Length of the sliding window.")),
    per: optional(period()),
    timezone: optional(timeZone),
    concurrency: optional(
      wholeNumber(20, { from: 1, to: maxConcurrency })(
        "Requests of one key that may be in progress at once, instead of limit.",
      ),
    ),
    match: shownIfWritten(match),
    who: optional(
      choice("verified", ["verified", "others"])(
        "verified: only requests whose token was verified; others: all the rest, refused ones too; without it, both.",
      ),
    ),
    key: shownIfWritten(
      listOf(keyPart, 8, {
        default: ["client"],
        expected: "a list of at most 8 parts, such as [client] or [token, route]",
        flaws: repeatedItems,
      })("What has a counter of its own; [] is one counter for all requests."),
    ),
    cost: shownIfWritten(wholeNumber(1, { from: 1, to: 1_000_000 })("What one request spends; at most limit.")),
    charge: shownIfWritten(charge),
    mode: shownIfWritten(
      choice("enforce", ["enforce", "shadow"])("shadow refuses nothing and counts what it would have refused."),
    ),
    exempt: shownIfWritten(networkList("Clients that the policy neither asks nor charges.", repeatedItems)),
    overrides: shownIfWritten(
      listOf(override, 1024, {
        expected: "a list of at most 1024 overrides, such as [{ client: 203.0.113.7, limit: 1000 }]",
      })("Other limits for some keys, each with one of client, token, subject and header."),
    ),
  },
  wordsForPolicy,
);

export const policies = listOf(policy, 32, {
  default: [{ name: "per-ip", limit: 100, window: "60s" }],
  minItems: 1,
  expected: "a list of 1 to 32 policies",
})("The rate limits. A list of your own replaces the default one, whose name, limit and window are shown here.");

export const enforcement = choice("on", ["on", "shadow"])(
  "shadow makes every policy a shadow: nothing is refused, and what would have been refused is counted.",
);

export type WrittenPolicy = Parsed<typeof policy>;

export const overrideParts = ["client", "token", "subject", "header"] as const;

export function toPolicy(written: WrittenPolicy): Policy {
  const { name, cost, match, who, charge, mode, exempt } = written;
  const limit = written.concurrency ?? written.limit;
  if (limit === null) throw new Error("the checks let no policy be without a limit");
  return {
    name,
    rate: rateOf(written),
    limit,
    cost,
    key: written.key.map(keyPartOf),
    match,
    who,
    chargeStatuses: charge.statuses.length === 0 ? null : charge.statuses,
    mode,
    exempt,
    overrides: written.overrides.map(overrideOf),
  };
}

function rateOf({ concurrency, per, timezone, windowMs }: WrittenPolicy): Rate {
  if (concurrency !== null) return { kind: "concurrency" };
  if (per !== null) return { kind: "calendar", per, timezone: timezone ?? "UTC" };
  if (windowMs === null) throw new Error("the checks let no policy be without a window");
  return { kind: "sliding", windowMs };
}

function keyPartOf(text: string): KeyPart {
  const [kind = "", ...name] = text.split(":");
  switch (kind) {
    case "header":
    case "claim":
      return { kind, name: name.join(":") };
    case "client":
    case "token":
    case "subject":
    case "method":
    case "route":
      return { kind };
    default:
      throw new Error("the definition accepts no such part of a key");
  }
}

function overrideOf(written: WrittenPolicy["overrides"][number]): LimitOverride {
  const part = overrideParts.find((name) => written[name] !== null);
  if (part === undefined) throw new Error("the checks let no override be without a part");
  const value = written[part] ?? "";
  return { part, value: part === "token" && isTokenDigest(value) ? value.toLowerCase() : value, limit: written.limit };
}

/** The paths of a policy, or the routes within them where they reach beyond. */
export function regionOf({ paths }: PolicyMatch, routes: readonly string[]): readonly string[] {
  if (paths.length === 0) return routes;
  return paths.flatMap((path) => {
    const within = routes.filter((route) => includes(path, route));
    return within.length === 0 ? [path] : within;
  });
}

/** Whether one of the paths includes all that `path` matches. No paths at all are all of them. */
export function coversPath(paths: readonly string[], path: string): boolean {
  return paths.length === 0 || paths.some((each) => includes(each, path));
}

export function coversMethods(outer: PolicyMatch, inner: PolicyMatch): boolean {
  if (outer.methods.length === 0) return true;
  return inner.methods.length > 0 && inner.methods.every((method) => outer.methods.includes(method));
}

/** Refuses the paths that are under none of the routes. `key`: that of their list. */
export function refuseOutOfRoutes(
  key: string,
  paths: readonly string[],
  { routes, basePath }: { readonly routes: readonly string[]; readonly basePath: string },
  refuse: Refuse,
): void {
  for (const [i, path] of paths.entries()) {
    if (routes.some((route) => mayBeUnder(path, route))) continue;
    const isWithBase = basePath !== "/" && `${path}/`.startsWith(`${basePath}/`);
    const remedy = isWithBase ? ", without basePath" : "; change it, or add its route to routes";
    const expected = `a path under one of the routes (${routes.join(", ")})${remedy}`;
    refuse(`${key}.${i}`, expected, "routes", ...(isWithBase ? ["basePath"] : []));
  }
}

/** Whether some path that matches `path` is under the route. */
function mayBeUnder(path: string, route: string): boolean {
  const names = segmentsOf(path);
  const prefix = segmentsOf(route);
  if (!path.endsWith("/") && names.length < prefix.length) return false;
  return prefix.every((name, i) => i >= names.length || names[i] === "*" || names[i] === name);
}

function includes(outer: string, inner: string): boolean {
  const names = segmentsOf(outer);
  const others = segmentsOf(inner);
  const isLongEnough = outer.endsWith("/") ? others.length >= names.length : others.length === names.length;
  const isPrefix = inner.endsWith("/");
  return (
    isLongEnough && (outer.endsWith("/") || !isPrefix) && names.every((name, i) => name === "*" || name === others[i])
  );
}

/** Whether some path matches both. */
export function overlap(one: string, other: string): boolean {
  const [names, others] = [segmentsOf(one), segmentsOf(other)];
  const common = Math.min(names.length, others.length);
  const isLongEnough = (path: string, length: number): boolean => length === common || path.endsWith("/");
  return (
    isLongEnough(one, others.length) &&
    isLongEnough(other, names.length) &&
    names.slice(0, common).every((name, i) => name === "*" || others[i] === "*" || name === others[i])
  );
}

function segmentsOf(path: string): string[] {
  return path
    .toLowerCase()
    .split("/")
    .filter((segment) => segment !== "");
}

/** The modes of all requests that `match` may be about. */
export function modesOver(
  { auth, routes }: { readonly auth: AuthDemands; readonly routes: readonly string[] },
  match: PolicyMatch,
): ReadonlySet<AuthMode> {
  const modes = new Set<AuthMode>();
  for (const path of regionOf(match, routes)) {
    const fitting = auth.rules.filter(
      ({ paths, methods }) =>
        (paths.length === 0 || paths.some((each) => overlap(each, path))) &&
        (methods.length === 0 ||
          match.methods.length === 0 ||
          match.methods.some((method) => methods.includes(method))),
    );
    const last = fitting.findIndex((rule) => coversPath(rule.paths, path) && coversMethods(rule, match));
    for (const { mode } of last === -1 ? [...fitting, auth] : fitting.slice(0, last + 1)) modes.add(mode);
  }
  return modes;
}
