// The keys of a store that several gateways share: where it is, and how it is used.
import { onFailureModes } from "../core/store-link.ts";
import { parseHost, parseStoreUrl, parseUpstreamAddress, storeUrlPattern } from "./addresses.ts";
import { listOf, section, shownIfWritten } from "./definition.ts";
import { choice, duration, durationOrAuto, filePath, flag, numberOrAuto, orNull, text, wholeNumber } from "./leaves.ts";
import { repeatedItems } from "./list-flaws.ts";
import { wordsForStore } from "./words-of-others.ts";

const withoutPassword = "without user, password and query: username and passwordFile are keys of their own";

const url = text(
  "redis://127.0.0.1:6379",
  {
    expected:
      'a redis:// or rediss:// URL such as "redis://127.0.0.1:6379/0", with host, port and number of the database',
    json: { format: "uri" },
    pattern: storeUrlPattern,
    parse: parseStoreUrl,
  },
  "URL of the only server, or of the primary; rediss:// is TLS. Without a port, 6379; without a database, 0.",
);

const address = text(
  "",
  {
    expected: 'a host name or an IP address, with a port or without, such as "10.0.0.1:6379" or "[::1]:6379"',
    parse: parseUpstreamAddress,
  },
  'A host, or a host and a port joined by ":".',
);

const servers = (what: string, description: string) =>
  listOf(address, { default: [], bounds: [0, 64], items: what, flaws: repeatedItems }, description);

const definition = section("Redis or Valkey, for store: redis. One of url, sentinels and cluster says where it is.", {
  url: orNull({
    ...url,
    hint: (value) => (typeof value === "string" && /[@?]/.test(value) ? `a URL ${withoutPassword}` : url.hint?.(value)),
  }),
  sentinels: section("Sentinels, which know the primary.", {
    name: orNull(
      text(
        "",
        { expected: "the name of a primary, of letters, digits, ., _ and -", pattern: "^[A-Za-z0-9._-]{1,128}$" },
        'Name of the primary, as the sentinels know it, such as "mymaster".',
      ),
    ),
    addresses: servers("sentinels", "Addresses of sentinels; without a port, 26379."),
  }),
  cluster: servers("servers", "Addresses of some servers of a cluster, which name the others; without a port, 6379."),
  username: orNull(
    text(
      "",
      { expected: "the name of a user, without blanks", pattern: "^[!-~]{1,128}$" },
      "User of the store (ACL); null is the default user.",
    ),
  ),
  passwordFile: filePath("File with the password in one line; it is read again at each connection."),
  tls: section("TLS to the store.", {
    enabled: flag(false, "Use TLS to sentinels or a cluster and what they name; a URL says it by its scheme."),
    ca: filePath("CA certificates in PEM to trust instead of the system's."),
    serverName: orNull(
      text(
        "",
        { expected: "a host name or an IP address (without brackets)", parse: parseHost },
        "Name for SNI and for the verification of the certificate; null uses the host of each address.",
      ),
    ),
    cert: filePath("Client certificate that the gateway presents to the store, in PEM; requires key."),
    key: filePath("Private key of cert, in PEM, without a passphrase."),
  }),
  prefix: text(
    "headgate:",
    {
      expected: "1 to 64 printable ASCII characters without braces and blanks",
      pattern: "^[!-z|~]{1,64}$",
    },
    "Begins the name of each key in the store. Gateways with the same prefix share their limits.",
  ),
  wait: durationOrAuto(
    ["1ms", "1s"],
    "Maximum time that a request waits for the store; auto is a 50th of the shortest window, from 10ms to 50ms.",
  ),
  lease: section("Limits of 1000 and more: quota that a gateway takes from the store ahead of requests.", {
    duration: duration(
      "1s",
      ["100ms", "10s"],
      "Maximum time for which a gateway keeps it; a 50th of the window if that is shorter.",
    ),
    most: wholeNumber(1000, [1, 100_000], "Maximum quota that a thread takes of one key at once."),
  }),
  onFailure: choice(
    "local",
    onFailureModes,
    "While the store is away, local divides the limit by replicas, open admits all, closed responds 503.",
  ),
  replicas: numberOrAuto(
    "auto",
    [1, 10_000],
    "Gateways that share the store, for onFailure: local; auto counts those in the store's list.",
  ),
  maxKeys: wholeNumber(
    1_000_000,
    [1000, 100_000_000],
    "New keys of each policy that a gateway makes in a window; beyond it, new clients are counted with their network.",
  ),
});

export const redis = shownIfWritten({ ...definition, wordsOfOthers: wordsForStore });
