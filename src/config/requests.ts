// Which requests are handled, for which client, and how: paths, headers of responses, bodies, timeouts, refusals.

import { enumerate } from "../core/enumerate.ts";
import { fixedFieldNames, ownNames } from "../core/field-names.ts";
import { createPathReader } from "../core/request-path.ts";
import { parseAddress } from "./addresses.ts";
import { type Flaw, listOf, section } from "./definition.ts";
import { choice, duration, networkList, orNull, repeatedItems, size, text, wholeNumber } from "./leaves.ts";
import type { Refuse, Scalar } from "./written.ts";

// Characters that are read in one way only (RFC 3986's pchar without percent-encoding and `;`).
const segment = "[A-Za-z0-9._~!$&'()*+,=:@-]+";

/** Undefined for a path with one. */
export const withoutDotSegment = (path: string): string | undefined =>
  path.split("/").some((part) => part === "." || part === "..") ? undefined : path;

export const pathPattern = `^/(${segment}/)*(${segment})?$`;

const expectedPath = 'a path that begins with "/", without empty or dot segments and without %, ?, #, \\ or ;';

/** A path without a slash at its end, except "/" itself. */
export const basePath = text("/", {
  expected: expectedPath,
  pattern: pathPattern,
  parse: (path) => withoutDotSegment(path.length > 1 ? path.replace(/\/$/, "") : path),
})("Prefix of all routes for clients; removed before a request is forwarded. Paths outside of it get 404.");

/** A prefix that begins and ends with a slash. */
const prefix = text("/", {
  expected: 'a path that begins and ends with "/", without empty or dot segments and without %, ?, #, \\ or ;',
  pattern: `^/(${segment}/)*$`,
  parse: withoutDotSegment,
})("A path prefix.");

const route = {
  ...prefix,
  hint(value: Scalar): string | undefined {
    const meant = `/${String(value).replace(/^\/|\/?\*?$/g, "")}/`;
    return prefix.parse(meant) === undefined ? undefined : `a path that begins and ends with "/", such as ${meant}`;
  },
};

const limited = ["/v1/", "/v2/"];

export const routes = listOf(route, 64, { default: limited, minItems: 1, items: "paths", flaws: routeFlaws })(
  "Path prefixes that are rate limited and forwarded.",
);

/** A path must be under one route only. Case is ignored, because a backend may ignore it. */
function routeFlaws(routes: readonly string[]): Flaw[] {
  const folded = routes.map((route) => route.toLowerCase());
  return folded.flatMap((route, index) => {
    const other = folded.findIndex((candidate, i) => i < index && overlaps(candidate, route));
    if (other === -1) return [];
    const relation = folded[other] === route ? "no second" : "none that overlaps";
    return [
      { index, expected: `${relation} "${routes[other]}" (routes.${other}; case is ignored); remove one of the two` },
    ];
  });
}

function overlaps(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}

export const unmatched = choice("reject", ["reject", "proxy"])(
  "Paths outside of all routes: reject responds 404, proxy forwards them without a limit and without a token check.",
);

export const headerNamePattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}";

export const clientAddress = section("How the address of a client, which is charged, is found.", {
  trustedProxies: networkList("Addresses and networks of the proxies whose forwarding header is trusted."),
  header: choice("x-forwarded-for", ["x-forwarded-for", "forwarded"])(
    "The header in which trusted proxies name the client; forwarded is that of RFC 7239. The other is ignored.",
  ),
  // Wider than /32 is wider than what one provider gets (RIPE-738), so unrelated clients would share a quota.
  ipv6Prefix: wholeNumber(64, { from: 32, to: 128 })("Bits of an IPv6 address that identify a client."),
  dropHeaders: listOf(
    text("", {
      expected:
        'a header that neither frames a message nor is read by the gateway, in any spelling, such as "X-SSL-Client-CN"',
      pattern: `^${headerNamePattern}$`,
      parse: (name) =>
        ownNames.has(name.toLowerCase()) || fixedFieldNames.takenFor(name) !== null ? undefined : name.toLowerCase(),
    })("The name of a header."),
    64,
    { items: "names of headers", flaws: repeatedItems },
  )("Headers that only trusted proxies may send, beside those by which a proxy names a client; removed from others."),
});

// Generous: a monitor that asks for a missing page, or a broken client behind a large NAT, stays within it.
export const refusals = section(
  "The budget of each client for refusals that spend no quota (400, 404); over it, 429.",
  {
    perSecond: wholeNumber(50, { from: 1, to: 1_000_000 })("Refusals per second."),
    burst: wholeNumber(500, { from: 1, to: 1_000_000 })("Refusals in a burst."),
  },
);

/** Without a wildcard: a page of any name below a domain could then be one that somebody else has put there. */
const originPattern = "^[hH][tT][tT][pP][sS]?://([^\\s\\\\/@?#*]+)$";

const origin = text("", {
  expected: 'an origin such as "https://app.example" or "http://localhost:5173", without a path and without *',
  pattern: originPattern,
  parse: parseOrigin,
})("A scheme and a host, with a port or without.");

export const cors = section("Browsers: pages of other origins that may call the API.", {
  origins: listOf(origin, 64, { items: "origins", flaws: repeatedItems })(
    "Origins whose preflights need no token, and whose pages may read the gateway's own responses.",
  ),
  preflights: choice("forward", ["forward", "answer"])(
    "Who answers their preflights: the upstream (forward; each spends quota) or the gateway (answer; none does).",
  ),
});

/** An origin of web pages as browsers send it: in lower case, without the port that the scheme implies. */
function parseOrigin(text: string): string | undefined {
  const [, authority = ""] = new RegExp(originPattern).exec(text) ?? [];
  return parseAddress(authority) !== undefined && URL.canParse(text) ? new URL(text).origin : undefined;
}

export const errors = section("The responses that the gateway makes itself.", {
  format: choice("v2", ["v2", "problem", "plain"])(
    "Body of an error: v2 (the API's JSON), problem (application/problem+json, RFC 9457) or plain (a line of text).",
  ),
});

export const requestId = section("The X-Request-Id that the upstream and the client get.", {
  keep: choice("any", ["any", "trusted"])(
    "Clients whose X-Request-Id goes upstream and back unchanged: all of them (any), or trusted proxies alone.",
  ),
});

export const fields = listOf(choice("standard", ["standard", "legacy", "structured"])("A family of headers."), 3, {
  default: ["standard", "legacy"],
  minItems: 1,
  expected: "a list of standard, legacy and structured, with at least one of the first two",
  flaws: fieldFlaws,
})("Rate limit headers: RateLimit-* (standard), X-RateLimit-* (legacy), the newer draft's RateLimit (structured).");

export const resetFormat = choice("epoch", ["epoch", "delta"])(
  "Value of both Reset headers: a Unix time (epoch), or a number of seconds from now (delta).",
);

/** A client that knows none of the draft's headers must still find its quota. */
function fieldFlaws(fields: readonly string[]): Flaw[] {
  const hasPlain = fields.includes("standard") || fields.includes("legacy");
  return [
    ...repeatedItems(fields),
    ...(hasPlain ? [] : [{ index: null, expected: "standard or legacy among them; add one of the two" }]),
  ];
}

/** What probes, scrapers and clients take for something else. */
const otherPaths = ["/livez", "/readyz", "/metrics", "/.well-known/oauth-protected-resource"];

/** Compared byte by byte with the path of a request. */
const quotaPath = text("/quota", {
  expected:
    'a path that begins with "/" and does not end with one, without empty or dot segments and without %, ?, #, \\ or ;, ' +
    `and none of ${enumerate(otherPaths, "and")}`,
  pattern: `^(/${segment})+$`,
  parse: (path) => (otherPaths.includes(path.toLowerCase()) ? undefined : withoutDotSegment(path)),
})("Path at which a caller is told, as JSON, what it has left of each policy; costs no quota. Null: nowhere.");

export const quota = section("What a caller is told of its own quota.", { path: orNull(quotaPath) });

export const readiness = section("What a load balancer is told on the traffic port.", {
  path: orNull(
    text("/readyz", { expected: expectedPath, pattern: pathPattern, parse: withoutDotSegment })(
      "Path on the traffic port that a load balancer may ask: 200 while /readyz is 200, else 503. Null: nowhere.",
    ),
  ),
});

interface OwnPaths {
  readonly basePath: string;
  readonly readiness: { readonly path: string | null };
  readonly quota: { readonly path: string | null };
}

/** The path is as it stands, whatever the base path is. What is limited must not be open in either reading. */
export function validateReadiness({ readiness: { path }, quota, basePath }: OwnPaths, refuse: Refuse): void {
  if (path === null) return;
  if (["/", basePath].some((base) => createPathReader(limited, base).read(path).kind === "route")) {
    refuse("readiness.path", "a path outside of /v1/ and /v2/, which are limited; choose another one", "basePath");
  }
  if (path === basePath.replace(/^\/$/, "") + quota.path) {
    refuse("readiness.path", "another path than that of quota.path; change one of the two", "quota.path", "basePath");
  }
}

// 0 is refused, since some take it for "nothing" and some for "no bound".
export const maxBodyBytes = size("10MiB", { from: "1B", to: "1TiB" })(
  "Maximum size of a request body; larger ones get 413.",
);

export const maxHeaderBytes = size("16KiB", { from: "4KiB", to: "256KiB" })(
  "Maximum size of a request head (target, names, values), which a connection may hold; larger ones get 431.",
);

export const maxTargetBytes = size("8KiB", { from: "1KiB", to: "64KiB" })(
  "Maximum length of a request target (path and query); longer ones get 414. At most maxHeaderBytes.",
);

export const timeouts = section("Timeouts of client connections.", {
  head: duration("10s", { from: "1ms", to: "1d" })("Maximum time until a request head is complete (else 408)."),
  body: duration("60s", { from: "1ms", to: "1d" })(
    "Maximum wait for a client within a body, both ways; as many bytes as bodyRate give one second back.",
  ),
  // Never off: one byte a minute would hold a connection to the upstream for ever.
  bodyRate: size("4KiB", { from: "256B", to: "1MiB" })(
    "Minimum rate of a body, both ways, in bytes per second, after body is over.",
  ),
  keepAlive: duration("620s", { from: "1ms", to: "1d" })(
    "Maximum idle time of a connection between two requests; longer than proxies in front keep it.",
  ),
  linger: duration("30s", { from: "1ms", to: "1h" })(
    "Maximum time that a request which has been answered may go on being sent; 5 s without a byte end it.",
  ),
});
