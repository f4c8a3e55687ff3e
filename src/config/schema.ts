// Every key of the configuration, once: its default, its bounds and one sentence about it. The packaged headgate.yaml,
// the JSON Schema and the table in docs/configuration.md are held to this by tests.
import {
  basePathPattern,
  parseBasePath,
  parseHost,
  parseRoute,
  parseUpstreamAddress,
  parseUpstreamUrl,
  routePattern,
} from "./addresses.ts";
import { type List, listOf, type Parsed, section } from "./definition.ts";
import { extAuth } from "./ext-auth-keys.ts";
import { choice, duration, filePath, flag, optionalText, size, text, wholeNumber } from "./leaves.ts";
import { addressFlaws, fieldFlaws, routeFlaws } from "./list-flaws.ts";
import { host, network } from "./place-leaves.ts";

const second = 1000;
const hour = 3600 * second;
// Every duration stays far below 2^31 - 1 ms, beyond which a Node timer fires at once.
const day = 24 * hour;

const route = text(
  "/",
  {
    expected: 'a path that begins and ends with "/", without empty or dot segments and without %, ?, #, \\ or ;',
    json: { pattern: routePattern },
    parse: parseRoute,
  },
  "A path prefix.",
);

const upstreamAddress = text(
  "",
  {
    expected: 'a host name or an IP address, with a port or without, such as "10.0.0.1:3000" or "[::1]:3000"',
    parse: parseUpstreamAddress,
  },
  "A host and, after a colon, its port.",
);

// These carry HTTP requests, which would pass uncounted and unchecked.
const carriesHttp = /^(h[23]|s?http|tls|ssl)/i;

const protocol = text(
  "websocket",
  {
    expected: "the name of a protocol such as websocket, and none that carries HTTP (h2c, TLS/1.0)",
    json: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+(/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$" },
    parse: (name) =>
      /^[!#$%&'*+.^_`|~\w-]+(\/[!#$%&'*+.^_`|~\w-]+)?$/.test(name) && !carriesHttp.test(name)
        ? name.toLowerCase()
        : undefined,
  },
  "The name of a protocol, as in the field Upgrade.",
);

const policy = section("How many requests a client may make.", {
  name: text(
    "per-ip",
    {
      allowed: "1 to 32 of a-z, 0-9 and -",
      expected: "a name of at most 32 lower-case letters, digits and hyphens that begins with a letter",
      json: { pattern: "^[a-z][a-z0-9-]{0,31}$" },
      parse: (name) => (/^[a-z][a-z0-9-]{0,31}$/.test(name) ? name : undefined),
    },
    "The policy's name in metrics and logs.",
  ),
  limit: wholeNumber(100, [1, 1_000_000], "Requests of one client admitted in any trailing window."),
  // Windows below a second are of use in tests only, and below 100 ms the answer would be older than the window.
  window: duration("60s", [100, day], "The length of the window."),
  maxClients: wholeNumber(
    100_000,
    [1, 10_000_000],
    "Clients remembered at once, which bounds the counters' memory: limit times maxClients is at most 1073741824.",
  ),
});

const policies: List<typeof policy> = {
  kind: "list",
  item: policy,
  default: 1,
  description: "The limits that apply; exactly one for now.",
  minItems: 1,
  maxItems: 1,
  expected: "a list of exactly one policy (several are not supported yet)",
  flaws: () => [],
};

export const schema = section("The configuration of Headgate.", {
  listen: section("Where clients connect.", {
    host: host("0.0.0.0", "The address to accept traffic on."),
    port: wholeNumber(8080, [0, 65535], "The port to accept traffic on; 0 picks a free one."),
    proxyProtocol: flag(
      false,
      "Every connection begins with a PROXY header (version 1 or 2) that names the peer, or is closed.",
    ),
    maxConnections: wholeNumber(
      10_000,
      [1, 1_000_000],
      "Connections open at once; the one longest without a request makes room for a new one (else 503).",
    ),
    maxConnectionsPerPeer: wholeNumber(
      1000,
      [1, 1_000_000],
      "Connections of one address or IPv6 network that is no trusted proxy (else 503); at most maxConnections.",
    ),
    maxRequestsPerConnection: wholeNumber(
      1000,
      [1, 1_000_000_000],
      "Requests on one connection; the answer to the last one says that it closes.",
    ),
    tls: section("TLS on the listener; plain HTTP without it. The files are reread when they change.", {
      cert: filePath(
        "The certificate and those that vouch for it, in PEM; relative to the config file, or to where the command runs.",
      ),
      key: filePath("The certificate's private key, in PEM and without a passphrase."),
      clientCa: filePath("Authorities in PEM: clients need a certificate of one of them; null asks for none."),
      http2: flag(true, "Whether HTTP/2 is offered beside HTTP/1.1."),
    }),
  }),
  admin: section("Where metrics and health are served, apart from traffic.", {
    host: host("127.0.0.1", "The address of the admin listener."),
    port: wholeNumber(9464, [0, 65535], "The port of the admin listener; 0 picks a free one."),
  }),
  basePath: text(
    "/",
    {
      expected: 'a path that begins with "/", without empty or dot segments and without %, ?, #, \\ or ;',
      json: { pattern: basePathPattern },
      parse: parseBasePath,
    },
    "Path prefix in front of the routes, for clients; taken off before the request is forwarded. Outside it is 404.",
  ),
  upstream: section("The API behind the gateway.", {
    url: text(
      "http://127.0.0.1:3000",
      {
        expected: "an absolute http:// or https:// URL without credentials, query or fragment",
        json: { format: "uri", pattern: "^[hH][tT][tT][pP][sS]?://[^\\s\\\\/@?#]+(/[^\\s\\\\?#]*)?$" },
        parse: parseUpstreamUrl,
      },
      "Where admitted requests are sent; a path in it stands before the client's target.",
    ),
    addresses: listOf(upstreamAddress, {
      default: [],
      description: "Where to connect in place of the URL's host, each with the URL's port unless it names one.",
      minItems: 0,
      maxItems: 64,
      expected: "a list of at most 64 addresses",
      flaws: addressFlaws,
    }),
    tls: section("How an upstream with an https URL is spoken to.", {
      ca: filePath("Certificates of the authorities to believe, in PEM, in place of the system's."),
      serverName: optionalText(
        { expected: "a host name or an IP address (without brackets)", parse: parseHost },
        "The name to ask for and to find in the certificate; null is the host of the URL.",
      ),
      cert: filePath("The certificate the gateway shows to the upstream, in PEM; with key."),
      key: filePath("The private key of cert, in PEM, without a passphrase."),
      insecureSkipVerify: flag(false, "Any certificate will do, so that anybody on the way can pose as the upstream."),
    }),
    healthCheck: section("Whether the addresses are asked how they are, beside the traffic.", {
      path: optionalText(
        {
          expected: 'a path that begins with "/", without blanks, fragment and control characters',
          json: { pattern: "^/[!-~]*$" },
          parse: (path) => (/^\/[!-~]*$/.test(path) && !path.includes("#") ? path : undefined),
        },
        "What is asked for, with GET and without the URL's path; 2xx and 3xx are healthy. null: nothing is asked.",
      ),
      interval: duration("5s", [100, day], "How often each address is asked."),
      timeout: duration("2s", [1, day], "How long connecting may take, and the answer."),
    }),
    connectTimeout: duration(
      "2s",
      [1, day],
      "How long a connection to the upstream may take to open (else 504), or to become free (else 503).",
    ),
    responseTimeout: duration(
      "30s",
      [1, day],
      "How long the upstream may take to begin its answer (else 504), and between two pieces of its body.",
    ),
    maxConnections: wholeNumber(
      256,
      [1, 65535],
      "Connections to the upstream at once; as many requests again may wait for one (else 503).",
    ),
  }),
  upgrade: section("Connections that leave HTTP for another protocol, such as WebSocket.", {
    protocols: listOf(protocol, {
      default: ["websocket"],
      description: "The protocols an Upgrade is passed on for; one that offers any other is served as ordinary HTTP.",
      minItems: 0,
      maxItems: 16,
      expected: "a list of at most 16 names of protocols",
      flaws: () => [],
    }),
    maxTunnels: wholeNumber(1000, [1, 65535], "Such connections at once, besides upstream.maxConnections (else 503)."),
    idleTimeout: duration("5m", [1, day], "How long such a connection may be without a byte in either direction."),
  }),
  routes: listOf(route, {
    default: ["/v1/", "/v2/"],
    description: "The path prefixes that are limited and proxied.",
    minItems: 1,
    maxItems: 64,
    expected: "a list of 1 to 64 paths",
    flaws: routeFlaws,
  }),
  unmatched: choice(
    "reject",
    ["reject", "proxy"],
    "What happens to a path under no route: reject answers 404, proxy forwards it unlimited, token check included.",
  ),
  clientAddress: section("Who is charged for a request.", {
    trustedProxies: listOf(network, {
      default: [],
      description: "Addresses and networks of proxies whose forwarding header is believed.",
      minItems: 0,
      maxItems: 1024,
      expected: "a list of at most 1024 addresses or networks",
      flaws: () => [],
    }),
    header: choice(
      "x-forwarded-for",
      ["x-forwarded-for", "forwarded"],
      "The header trusted proxies name the client in, X-Forwarded-For or RFC 7239's Forwarded; the other is not read.",
    ),
    // Wider than /32 is wider than what one provider gets (RIPE-738), so strangers would share a quota.
    ipv6Prefix: wholeNumber(64, [32, 128], "IPv6 clients that share this many leading bits are one client."),
  }),
  policies,
  auth: section("Whether a bearer token is asked for.", {
    mode: choice(
      "presence",
      ["off", "presence", "tokens"],
      "off asks for nothing, presence for a well-formed token, tokens for one that is listed in tokensFile.",
      ["jwt", "introspection"],
    ),
    realm: text(
      "finance",
      {
        allowed: "1 to 128 of ASCII",
        expected: 'at most 128 printable ASCII characters without \\ and "',
        json: { pattern: "^[ !#-\\[\\]-~]{1,128}$" },
        parse: (realm) => (/^[ !#-[\]-~]{1,128}$/.test(realm) ? realm : undefined),
      },
      "The realm named in WWW-Authenticate.",
    ),
    tokensFile: filePath(
      "Digests of the tokens, for mode tokens; relative to the config file, or to where the command runs.",
    ),
  }),
  fields: listOf(choice("standard", ["standard", "legacy", "structured"], "A family of fields."), {
    default: ["standard", "legacy"],
    description: "The rate limit fields on every answer: RateLimit-*, X-RateLimit-* and the structured draft's.",
    minItems: 1,
    maxItems: 3,
    expected: "a list of standard, legacy and structured, with at least one of the first two",
    flaws: fieldFlaws,
  }),
  // 0 is refused, since some take it for "nothing" and some for "no bound".
  maxBodyBytes: size("10MiB", [1, 1024 ** 4], "The largest request body that is forwarded (else 413)."),
  timeouts: section("How long a client may take.", {
    head: duration("10s", [1, day], "How long the head of a request may take (else 408)."),
    body: duration(
      "60s",
      [1, day],
      "How long a client may be waited for while a body moves, either way; 16 KiB give a second back.",
    ),
    keepAlive: duration("65s", [1, day], "How long a connection may be idle between two requests."),
  }),
  extAuth,
  drain: section("How the gateway ends on SIGTERM.", {
    delay: duration("0s", [0, hour], "How long traffic is still accepted after readiness has failed."),
    timeout: duration("25s", [1, hour], "How long requests in flight may take to finish."),
  }),
  log: section("What is logged, as JSON lines on standard output.", {
    level: choice("info", ["debug", "info", "warn", "error", "silent"], "The lowest level that is logged."),
    access: flag(true, "One line for each request."),
  }),
});

export type ParsedConfig = Parsed<typeof schema>;
