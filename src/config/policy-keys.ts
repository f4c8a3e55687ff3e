// The keys of a policy. Most of them may be left out. Words that people know from other gateways are answered with the
// key or the value that is meant.
import { listOf, optional, required, secret, section, shownIfWritten } from "./definition.ts";
import { choice, duration, network, text, wholeNumber } from "./leaves.ts";
import { repeatedItems } from "./list-flaws.ts";
import { keyPart, method, pathPattern, timeZone, tokenReference } from "./policy-leaves.ts";
import type { Scalar } from "./raw.ts";
import { wordsForOverride, wordsForPolicy } from "./words-of-others.ts";

/** As many as a slot can hold, which is far more than an upstream answers at once. */
export const maxConcurrency = 65_535;

/** The table counts in words of 32 bits. */
const maxLimit = 1_000_000_000;

const limit = optional(limitNumber());

const match = section("The limited requests that the policy is about; without it, all of them.", {
  paths: listOf(
    pathPattern,
    {
      default: [],
      bounds: [0, 64],
      items: "paths",
      flaws: (paths) => repeatedItems(paths.map((path) => path.toLowerCase())),
    },
    'Paths below basePath: one that ends in "/" is a prefix, "*" is one segment of any name; [] means all.',
  ),
  methods: listOf(
    method,
    { default: [], bounds: [0, 16], items: "methods", flaws: repeatedItems },
    "Methods in upper case; [] means all.",
  ),
});

const charge = section("What is charged, if it depends on the response.", {
  statuses: listOf(
    wholeNumber(401, [100, 599], "A status."),
    { default: [], bounds: [0, 100], items: "statuses", flaws: repeatedItems },
    "Only a request whose response has one of these statuses is charged; the unit is held until then.",
  ),
});

const overrideKeys = section("Another limit for some keys: one of client, token, subject and header, and limit.", {
  client: optional({
    ...network,
    description: "Address or network of clients; of several, the longest prefix applies.",
  }),
  token: optional(tokenReference),
  subject: optional(
    text(
      "",
      { expected: "text of at most 256 characters", pattern: "^[^\\x00-\\x1f\\x7f]{1,256}$" },
      "The subject of a verified token.",
    ),
  ),
  header: optional(
    secret(
      text(
        "",
        {
          expected: "at most 1024 printable ASCII characters without blanks at the ends",
          pattern: "^[!-~]([ -~]{0,1022}[!-~])?$",
        },
        "The value of the header in key.",
      ),
    ),
  ),
  limit: required({
    ...wholeNumber(100, [1, maxLimit], "The limit for them."),
    hint: (value) =>
      value === 0 || value === -1 || value === "unlimited"
        ? `a whole number from 1 to ${maxLimit} (for no limit, name the clients in exempt)`
        : undefined,
  }),
});

const override = { ...overrideKeys, wordsOfOthers: wordsForOverride };

const definition = section("A rate limit: limit with window, limit with per, or concurrency.", {
  name: required(
    text(
      "per-ip",
      {
        expected: "a name of at most 32 lower-case letters, digits and hyphens that begins with a letter",
        pattern: "^[a-z][a-z0-9-]{0,31}$",
      },
      "Name of the policy in metrics and logs; required, and different from all others.",
    ),
  ),
  limit,
  // Windows below a second are of use in tests only, and below 100 ms the response would be older than the window.
  window: optional(duration("60s", ["100ms", "31d"], "Length of the sliding window.")),
  per: optional(period()),
  timezone: optional(timeZone),
  concurrency: optional(
    wholeNumber(20, [1, maxConcurrency], "Requests of one key that may be in progress at once, instead of limit."),
  ),
  match: shownIfWritten(match),
  key: shownIfWritten(
    listOf(
      keyPart,
      {
        default: ["client"],
        bounds: [0, 8],
        expected: "a list of at most 8 parts, such as [client] or [token, route]",
        flaws: repeatedItems,
      },
      "What has a counter of its own; [] is one counter for all requests.",
    ),
  ),
  cost: shownIfWritten(wholeNumber(1, [1, 1_000_000], "What one request spends; at most limit.")),
  charge: shownIfWritten(charge),
  mode: shownIfWritten(
    choice("enforce", ["enforce", "shadow"], "shadow refuses nothing and counts what it would have refused."),
  ),
  exempt: shownIfWritten(
    listOf(
      network,
      { default: [], bounds: [0, 1024], items: "addresses or networks", flaws: repeatedItems },
      "Clients that the policy neither asks nor charges.",
    ),
  ),
  overrides: shownIfWritten(
    listOf(
      override,
      {
        default: [],
        bounds: [0, 1024],
        expected: "a list of at most 1024 overrides, such as [{ client: 203.0.113.7, limit: 1000 }]",
      },
      "Other limits for some keys, each with one of client, token, subject and header.",
    ),
  ),
});

export const policy = { ...definition, wordsOfOthers: wordsForPolicy };

function limitNumber() {
  const number = wholeNumber(100, [1, maxLimit], "What is admitted for one key within any window, or in each period.");
  const isRate = (value: unknown): boolean => /^\d+ *(r|req[a-z]*)?(\/| per )/.test(String(value));
  return {
    ...number,
    hint: (value: Scalar) => (isRate(value) ? "a whole number (the time is in window or per)" : number.hint?.(value)),
  };
}

function period() {
  const periods = choice(
    "month",
    ["minute", "hour", "day", "month"],
    "Instead of window: the limit is for each calendar minute, hour, day or month, and starts again at its border.",
  );
  const hint = `${periods.expected} (for any other length, use window)`;
  return { ...periods, hint: () => hint };
}
