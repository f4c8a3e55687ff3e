// The kinds of values that only policies have.

import { basePathPattern, parseBasePath } from "./addresses.ts";
import { secret } from "./definition.ts";
import { text } from "./leaves.ts";
import type { Scalar } from "./raw.ts";

const token = "[!#$%&'*+.^`|~0-9A-Za-z-]{1,128}";

/** Headers whose value is found by another part, which reads it as it must be read. */
const readElsewhere = new Map([
  ["authorization", "token"],
  ["proxy-authorization", "token"],
  ["forwarded", "client"],
  ["x-forwarded-for", "client"],
  ["x-real-ip", "client"],
  ["cf-connecting-ip", "client"],
  ["true-client-ip", "client"],
]);

/** What the parts are called elsewhere. */
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

/** A part of the key of a policy, as it is written. */
export const keyPart = {
  ...text(
    "client",
    {
      expected: "client, token, subject, method, route or header:NAME",
      pattern: `^(client|token|subject|method|route|[hH][eE][aA][dD][eE][rR]:${token}|claim:[!-~]{1,128})$`,
      parse: (part) => {
        const name = headerName(part);
        if (name === undefined) return part;
        return readElsewhere.has(name) ? undefined : `header:${name}`;
      },
    },
    "A part of the key; what a request lacks is replaced by the client.",
  ),
  hint: keyPartHint,
};

function headerName(part: string): string | undefined {
  return /^header:(.*)$/i.exec(part)?.[1]?.toLowerCase();
}

function keyPartHint(value: Scalar): string | undefined {
  if (typeof value !== "string") return undefined;
  const name = headerName(value);
  const better = name === undefined ? undefined : readElsewhere.get(name);
  if (better !== undefined) return `${better}, which reads this header`;
  if (name?.includes("_")) return 'the name of a header with "-", because those with "_" are refused';
  return partsOfOthers.find(([pattern]) => pattern.test(value))?.[1];
}

/** A path of `match`, unchanged. */
export const pathPattern = {
  ...text(
    "/",
    {
      expected:
        'a path that begins with "/", of names and "*", without empty or dot segments and without %, ?, #, \\ or ;',
      pattern: basePathPattern,
      parse: (path) => (parseBasePath(path) === undefined || oddSegment(path) !== undefined ? undefined : path),
    },
    'A path, or a prefix that ends in "/".',
  ),
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

export const method = {
  ...text(
    "GET",
    {
      expected: "the name of a method in upper case, such as GET",
      pattern: "^[!#$%&'*+.^_`|~0-9A-Z-]{1,32}$",
      parse: (name) => (everyMethod.has(name) ? undefined : name),
    },
    "The name of a method.",
  ),
  hint(value: Scalar): string | undefined {
    if (typeof value !== "string") return undefined;
    if (everyMethod.has(value.toUpperCase())) return "the name of a method; leave match.methods out for all of them";
    return /^[a-z]{1,32}$/i.test(value) ? `the name in upper case: ${value.toUpperCase()}` : undefined;
  },
};

export const timeZone = text(
  "UTC",
  {
    expected: 'a time zone of the IANA database, such as "Europe/Berlin" or "UTC"',
    pattern: "^[A-Za-z][A-Za-z0-9_+/-]{1,63}$",
    parse: (name) => (isTimeZone(name) ? name : undefined),
  },
  "Time zone of per (IANA database); without it, UTC.",
);

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Somebody may have written the token itself, so only what `auth.tokensFile` has as a name is shown. */
export const tokenReference = {
  ...secret(
    text(
      "",
      {
        expected: "the name of a token in auth.tokensFile, or its SHA-256 digest (64 hex digits)",
        pattern: "^([0-9a-fA-F]{64}|[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63})$",
      },
      "Name of a token in auth.tokensFile, or its SHA-256 digest in hex, never the token itself.",
    ),
  ),
  mayBeTokenName: true,
} as const;

/** Whether it is a digest; otherwise it is a name. */
export function isTokenDigest(reference: string): boolean {
  return /^[0-9a-fA-F]{64}$/.test(reference);
}
