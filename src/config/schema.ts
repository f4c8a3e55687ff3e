// Defines every key of the configuration once: its default, its bounds and its description. Tests compare the packaged
// headgate.yaml, the JSON Schema and docs/configuration.md with it.
import {
  basePathPattern,
  originPattern,
  parseBasePath,
  parseHost,
  parseOrigin,
  parseRoute,
  parseUpstreamAddress,
  parseUpstreamUrl,
  routePattern,
} from "./addresses.ts";
import { counters, workers } from "./counters-keys.ts";
import { listOf, type Parsed, section } from "./definition.ts";
import { extAuth } from "./ext-auth-keys.ts";
import { choice, duration, filePath, flag, host, network, orNull, size, text, wholeNumber } from "./leaves.ts";
import { fieldFlaws, repeatedItems, routeFlaws } from "./list-flaws.ts";
import { policy } from "./policy-keys.ts";
import { wordsForConfiguration } from "./words-of-others.ts";

const route = text(
  "/",
  {
    expected: 'a path that begins and ends with "/", without empty or dot segments and without %, ?, #, \\ or ;',
    pattern: routePattern,
    parse: parseRoute,
  },
  "A path prefix.",
);

const origin = text(
  "",
  {
    expected: 'an origin such as "https://app.example" or "http://localhost:5173", without a path and without *',
    pattern: originPattern,
    parse: parseOrigin,
  },
  "A scheme and a host, with a port or without.",
);

const upstreamAddress = text(
  "",
  {
    expected: 'a host name or an IP address, with a port or without, such as "10.0.0.1:3000" or "[::1]:3000"',
    parse: parseUpstreamAddress,
  },
  'A host, or a host and a port joined by ":".',
);

// Requests inside of these would be neither counted nor checked.
const carriesHttp = /^(h[23]|s?http|tls|ssl)/i;

const protocol = text(
  "websocket",
  {
    expected: "the name of a protocol such as websocket, and none that carries HTTP (h2c, TLS/1.0)",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+(/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$",
    parse: (name) => (carriesHttp.test(name) ? undefined : name.toLowerCase()),
  },
  "The name of a protocol, as in the Upgrade header.",
);

const definition = section("The configuration of Headgate.", {
  listen: section("The listener for traffic.", {
    host: host("0.0.0.0", "IP address or host name to listen on."),
    port: wholeNumber(8080, [0, 65535], "TCP port to listen on; 0 picks a free port."),
    proxyProtocol: flag(
      false,
      "Require a PROXY protocol header (version 1 or 2), which names the peer, on each connection.",
    ),
    maxConnections: wholeNumber(
      10_000,
      [1, 1_000_000],
      "Open connections. At the limit the longest idle one is closed; if none is idle, new ones get 503.",
    ),
    maxConnectionsPerPeer: wholeNumber(
      1000,
      [1, 1_000_000],
      "Open connections of one address or IPv6 network (more get 503), except trusted proxies; at most maxConnections.",
    ),
    newConnectionsPerPeer: wholeNumber(
      200,
      [1, 1_000_000],
      "New connections of one peer per second, and maxConnectionsPerPeer more in a burst; others are closed.",
    ),
    maxRequestsPerConnection: wholeNumber(
      1000,
      [1, 1_000_000_000],
      "Requests on one connection; the last response announces that the connection closes.",
    ),
    tls: section(
      "TLS on the listener; without cert it accepts plain HTTP. Changed files are loaded without a restart.",
      {
        cert: filePath("Certificate of the server and its intermediate certificates, in PEM."),
        key: filePath("Private key of the certificate, in PEM, without a passphrase."),
        clientCa: filePath("CA certificates in PEM; each client must present a certificate of one of them (mTLS)."),
        http2: flag(true, "Offer HTTP/2 in addition to HTTP/1.1."),
      },
    ),
  }),
  admin: section("The listener for metrics and health, separate from traffic.", {
    host: host("127.0.0.1", "IP address or host name of the admin listener."),
    port: wholeNumber(9464, [0, 65535], "TCP port of the admin listener; 0 picks a free port."),
  }),
  basePath: text(
    "/",
    {
      expected: 'a path that begins with "/", without empty or dot segments and without %, ?, #, \\ or ;',
      pattern: basePathPattern,
      parse: parseBasePath,
    },
    "Prefix of all routes for clients; removed before a request is forwarded. Paths outside of it get 404.",
  ),
  upstream: section("The API behind the gateway.", {
    url: text(
      "http://127.0.0.1:3000",
      {
        expected: "an absolute http:// or https:// URL without credentials, query or fragment",
        json: { format: "uri" },
        pattern: "^[hH][tT][tT][pP][sS]?://[^\\s\\\\/@?#]+(/[^\\s\\\\?#]*)?$",
        parse: parseUpstreamUrl,
      },
      "URL that requests are forwarded to; its path is put before the path of each request.",
    ),
    addresses: listOf(
      upstreamAddress,
      { default: [], bounds: [0, 64], items: "addresses", flaws: repeatedItems },
      "Addresses to connect to instead of the URL's host; one without a port uses the URL's port.",
    ),
    tls: section("TLS to an upstream whose URL is https.", {
      ca: filePath("CA certificates in PEM to trust instead of the system's."),
      serverName: orNull(
        text(
          "",
          { expected: "a host name or an IP address (without brackets)", parse: parseHost },
          "Name for SNI and for the verification of the certificate; null uses the URL's host.",
        ),
      ),
      cert: filePath("Client certificate that the gateway presents to the upstream, in PEM; requires key."),
      key: filePath("Private key of cert, in PEM, without a passphrase."),
      insecureSkipVerify: flag(
        false,
        "Accept any certificate of the upstream: anyone on the network path can impersonate it.",
      ),
    }),
    healthCheck: section("Health checks of the upstream's addresses, in addition to what traffic shows.", {
      path: orNull(
        text(
          "",
          {
            expected: 'a path that begins with "/", without blanks, fragment and control characters',
            pattern: '^/[!"$-~]*$',
          },
          "Path of the GET request, without the URL's path; 2xx and 3xx mean healthy. null turns health checks off.",
        ),
      ),
      interval: duration("5s", ["100ms", "1d"], "Time between two checks of an address."),
      timeout: duration("2s", ["1ms", "1d"], "Maximum time to connect, and again for the response."),
    }),
    connectTimeout: duration(
      "2s",
      ["1ms", "1d"],
      "Maximum time to open a connection to the upstream (else 504), or to wait for a free one (else 503).",
    ),
    responseTimeout: duration(
      "30s",
      ["1ms", "1d"],
      "Maximum time until the upstream's response begins (else 504), and between two pieces of its body.",
    ),
    maxConnections: wholeNumber(
      256,
      [1, 65535],
      "Open connections to the upstream; one client alone gets half of them. As many more requests may wait for one.",
    ),
  }),
  upgrade: section("Tunnels: connections that an Upgrade turns to another protocol, such as WebSocket.", {
    protocols: listOf(
      protocol,
      { default: ["websocket"], bounds: [0, 16], items: "names of protocols" },
      "Protocols whose Upgrade is forwarded; with any other, the request is handled as ordinary HTTP.",
    ),
    maxTunnels: wholeNumber(
      1000,
      [1, 65535],
      "Open tunnels, in addition to upstream.maxConnections; one client alone gets half of them. More get 503.",
    ),
    idleTimeout: duration("5m", ["1ms", "1d"], "Maximum time without a byte in either direction."),
  }),
  routes: listOf(
    route,
    { default: ["/v1/", "/v2/"], bounds: [1, 64], items: "paths", flaws: routeFlaws },
    "Path prefixes that are rate limited and forwarded.",
  ),
  unmatched: choice(
    "reject",
    ["reject", "proxy"],
    "Paths outside of all routes: reject responds 404, proxy forwards them without a limit and without a token check.",
  ),
  clientAddress: section("How the address of a client, which is charged, is found.", {
    trustedProxies: listOf(
      network,
      { default: [], bounds: [0, 1024], items: "addresses or networks" },
      "Addresses and networks of the proxies whose forwarding header is trusted.",
    ),
    header: choice(
      "x-forwarded-for",
      ["x-forwarded-for", "forwarded"],
      "The header in which trusted proxies name the client; forwarded is that of RFC 7239. The other is ignored.",
    ),
    // Wider than /32 is wider than what one provider gets (RIPE-738), so unrelated clients would share a quota.
    ipv6Prefix: wholeNumber(64, [32, 128], "Bits of an IPv6 address that identify a client."),
  }),
  policies: listOf(
    policy,
    {
      default: [{ name: "per-ip", limit: 100, window: "60s" }],
      bounds: [1, 32],
      expected: "a list of 1 to 32 policies",
    },
    "The rate limits. A list of your own replaces the default one, whose name, limit and window are shown here.",
  ),
  enforcement: choice(
    "on",
    ["on", "shadow"],
    "shadow makes every policy a shadow: nothing is refused, and what would have been refused is counted.",
  ),
  counters,
  workers,
  // Generous: a monitor that asks for a missing page, or a broken client behind a large NAT, stays within it.
  refusals: section("The budget of each client for refusals that spend no quota (400, 404); over it, 429.", {
    perSecond: wholeNumber(50, [1, 1_000_000], "Refusals per second."),
    burst: wholeNumber(500, [1, 1_000_000], "Refusals in a burst."),
  }),
  auth: section("The check of bearer tokens.", {
    mode: choice(
      "presence",
      ["off", "presence", "tokens"],
      "off checks nothing, presence requires a well-formed token, tokens requires one listed in tokensFile.",
      ["jwt", "introspection"],
    ),
    realm: text(
      "finance",
      {
        expected: 'at most 128 printable ASCII characters without \\ and "',
        pattern: "^[ !#-\\[\\]-~]{1,128}$",
      },
      "Realm in the WWW-Authenticate header.",
    ),
    tokensFile: filePath("SHA-256 digests of the accepted tokens, for mode tokens."),
  }),
  cors: section("Browsers: pages of other origins that may call the API.", {
    origins: listOf(
      origin,
      { default: [], bounds: [0, 64], items: "origins", flaws: repeatedItems },
      "Origins whose preflights need no token, and whose pages may read the gateway's own responses.",
    ),
  }),
  fields: listOf(
    choice("standard", ["standard", "legacy", "structured"], "A family of headers."),
    {
      default: ["standard", "legacy"],
      bounds: [1, 3],
      expected: "a list of standard, legacy and structured, with at least one of the first two",
      flaws: fieldFlaws,
    },
    "Rate limit headers: RateLimit-* (standard), X-RateLimit-* (legacy), the newer draft's RateLimit (structured).",
  ),
  // 0 is refused, since some take it for "nothing" and some for "no bound".
  maxBodyBytes: size("10MiB", ["1B", "1TiB"], "Maximum size of a request body; larger ones get 413."),
  timeouts: section("Timeouts of client connections.", {
    head: duration("10s", ["1ms", "1d"], "Maximum time until a request head is complete (else 408)."),
    body: duration(
      "60s",
      ["1ms", "1d"],
      "Minimum rate of a body, both ways: at most this long without progress; each 16 KiB earns one second.",
    ),
    keepAlive: duration("65s", ["1ms", "1d"], "Maximum idle time of a connection between two requests."),
  }),
  extAuth,
  reload: section("How a changed configuration is put into force while the gateway runs (SIGHUP does it, too).", {
    watch: flag(true, "Reload when the configuration file has changed."),
  }),
  drain: section("The shutdown after SIGTERM or SIGINT.", {
    delay: duration("0s", ["0", "1h"], "Time during which readiness fails and new requests are still accepted."),
    timeout: duration("25s", ["1ms", "1h"], "Maximum time for the requests in progress to finish, after that."),
  }),
  log: section("The log: JSON lines on standard output.", {
    level: choice("info", ["debug", "info", "warn", "error", "silent"], "Lowest level that is logged."),
    access: flag(true, "Log one line for each request."),
  }),
});

export const schema = { ...definition, wordsOfOthers: wordsForConfiguration };

export type ParsedConfig = Parsed<typeof schema>;
