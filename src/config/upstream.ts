// The API behind the gateway: its addresses and TLS, the bounds of connections to it, and tunnels.
import { canonicalHost, parseIpAddress } from "../core/ip-address.ts";
import { splitAddress, type UpstreamSettings, upstreamHostOf, upstreamTargets } from "../core/upstream.ts";
import { isLoopback, parseAddress, parseHost } from "./addresses.ts";
import { listOf, type Parsed, section } from "./definition.ts";
import { addressList, duration, filePath, flag, orAuto, orNull, size, text, wholeNumber } from "./leaves.ts";
import { collide, type Listeners, openListeners } from "./listeners.ts";
import type { IsSound, Refuse } from "./written.ts";

/** Of Debian, Alpine and their kin; Fedora and RHEL; openSUSE; BSDs. */
const systemStores = [
  ...["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"],
  ...["/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"],
];
const upstreamKeys = {
  url: text("http://127.0.0.1:3000", {
    expected: "an absolute http:// or https:// URL without credentials, query or fragment",
    json: { format: "uri" },
    pattern: "^[hH][tT][tT][pP][sS]?://[^\\s\\\\/@?#]+(/[^\\s\\\\?#]*)?$",
    // The parser of the URL standard repairs blanks, backslashes and missing slashes. Such text is refused instead.
    parse: (url) => (URL.canParse(url) ? url : undefined),
  })("URL that requests are forwarded to; its path is put before the path of each request."),
  addresses: addressList({ items: "addresses", port: 3000 })(
    "Addresses to connect to instead of the URL's host; one without a port uses the URL's port.",
  ),
  hostHeader: text("client", {
    expected: "client, url or name: and a host, with a port or without, such as name:api.example.com",
    pattern: "^(client|url|name:[^\\s/@?#]+)$",
    parse: (text) => (text.startsWith("name:") && parseAddress(text.slice(5)) === undefined ? undefined : text),
  })("The Host that the upstream gets: the client's, the host of url, or the one that is named."),
  tls: section("TLS to an upstream whose URL is https.", {
    ...outboundTls("upstream", "the URL's host"),
    insecureSkipVerify: flag(false)(
      "Accept any certificate of the upstream: anyone on the network path can impersonate it.",
    ),
  }),
  healthCheck: section("Health checks of the upstream's addresses, in addition to what traffic shows.", {
    path: orNull(
      text("", {
        expected: 'a path that begins with "/", without blanks, fragment and control characters',
        pattern: '^/[!"$-~]*$',
      })("Path of the GET request, without the URL's path; 2xx and 3xx mean healthy. null turns health checks off."),
    ),
    interval: duration("5s", { from: "100ms", to: "1d" })("Time between two checks of an address."),
    timeout: duration("2s", { from: "1ms", to: "1d" })("Maximum time to connect, and again for the response."),
  }),
  connectTimeout: duration("2s", { from: "1ms", to: "1d" })(
    "Maximum time to open a connection to the upstream (else 504), or to wait for a free one (else 503).",
  ),
  responseTimeout: duration("30s", { from: "1ms", to: "1d" })(
    "Maximum time until the response begins, and until then for the request's body to be read on (else 504).",
  ),
  bodyTimeout: duration("120s", { from: "1ms", to: "1d" })("Maximum time between two pieces of the response's body."),
  keepAlive: orAuto(
    duration("4s", { from: "0", to: "1d" })(
      "Maximum idle time of a connection; 0 keeps none. auto: 4s, or what the upstream's Keep-Alive allows.",
    ),
  ),
  maxConnections: wholeNumber(256, { from: 1, to: 65535 })(
    "Open connections to the upstream; one client gets half of them. As many more requests may wait (100 at least).",
  ),
  maxHeaderBytes: size("16KiB", { from: "4KiB", to: "256KiB" })(
    "Maximum size of the head of a response (else 502); a connection may hold twice as much.",
  ),
};

export const upstream = section("The API behind the gateway.", upstreamKeys, {
  "target uri": ["url"],
  "preserveHost passHost passHostHeader hostRewrite changeOrigin upstreamHost": ["hostHeader"],
  "readTimeout idleTimeout proxyReadTimeout timeoutServer": ["responseTimeout", "bodyTimeout"],
});

// Requests inside of these would be neither counted nor checked.
const carriesHttp = /^(h[23]|s?http|tls|ssl)/i;

const protocol = text("websocket", {
  expected: "the name of a protocol such as websocket, and none that carries HTTP (h2c, TLS/1.0)",
  pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+(/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$",
  parse: (name) => (carriesHttp.test(name) ? undefined : name.toLowerCase()),
})("The name of a protocol, as in the Upgrade header.");

export const upgrade = section("Tunnels: connections that an Upgrade turns to another protocol, such as WebSocket.", {
  protocols: listOf(protocol, 16, { default: ["websocket"], items: "names of protocols" })(
    "Protocols whose Upgrade is forwarded; with any other, the request is handled as ordinary HTTP.",
  ),
  maxTunnels: wholeNumber(1000, { from: 1, to: 65535 })(
    "Open tunnels, in addition to upstream.maxConnections; one client alone gets half of them. More get 503.",
  ),
  idleTimeout: duration("5m", { from: "1ms", to: "1d" })("Maximum time without a byte in either direction."),
});

type ParsedUpstream = Parsed<typeof upstream>;

/** Of an upstream, what its keys of TLS are validated by. */
export interface TlsInContext {
  readonly url: string;
  readonly tls: ParsedUpstream["tls"];
}

export function validateUpstreamTls({ url, tls }: TlsInContext, refuse: Refuse): void {
  const { isTls } = upstreamTargets(url, []);
  const unused = isTls ? null : "upstream.url is not https; remove it, or begin upstream.url with https://";
  validateOutboundTls("upstream.tls", tls, unused, ["upstream.url"], refuse);
  if (unused !== null && tls.insecureSkipVerify) {
    refuse("upstream.tls.insecureSkipVerify", `false, since ${unused}`, "upstream.url");
  }
}

/** For `headgate check`: a comment if the names that the upstream gets in TLS (SNI) and in Host may differ. */
export function upstreamHostLines({ url, addresses, hostHeader, tls }: UpstreamSettings): string[] {
  const { host, isTls } = upstreamTargets(url, addresses);
  const name = canonicalHost(tls.serverName ?? host);
  const { upstreamHost, keepsClientHost } = upstreamHostOf(url, hostHeader);
  if (!isTls || (!keepsClientHost && canonicalHost(splitAddress(upstreamHost).host) === name)) return [];
  const sent = keepsClientHost ? "the client's" : upstreamHost;
  const sni = parseIpAddress(name) === undefined ? name : "none";
  return [`# upstream: SNI is ${sni}, Host is ${sent}: if they differ, a server with several hosts may answer 421`];
}

/** A gateway that is its own upstream would receive each request again, until the quota is spent. */
export function validateUpstreamAddresses(
  { upstream, ...listeners }: Listeners & { readonly upstream: ParsedUpstream },
  refuse: Refuse,
  isSound: IsSound,
): void {
  const { url, addresses } = upstream;
  const written =
    addresses.length === 0
      ? [{ key: "upstream.url", addresses }]
      : addresses.map((address, index) => ({ key: `upstream.addresses.${index}`, addresses: [address] }));
  for (const [name, listener] of openListeners(listeners)) {
    for (const { key, addresses } of written.filter(({ key }) => isSound(key))) {
      const [target] = upstreamTargets(url, addresses).targets;
      if (target === undefined || !isLoopback(target.host) || !collide(listener, target)) continue;
      const expected = `another address than the gateway's own (${name}); name the API behind it, or change ${name}.port`;
      refuse(key, expected, "upstream.url", `${name}.port`, `${name}.host`, "upstream.addresses");
    }
  }
}

/**
 * TLS of connections that the gateway opens, to the upstream and to a shared store: the keys that both have, and what
 * contradicts them. `peer`: what the connections lead to. `host`: what its name is otherwise.
 */
export function outboundTls(peer: string, host: string) {
  const expected = "a host name or an IP address (without brackets)";
  const name = `Name for SNI and for the verification of the certificate; null uses ${host}.`;
  return {
    ca: filePath("CA certificates in PEM to trust instead of Node's own; system: those of the system.", systemStores),
    serverName: orNull(text("", { expected, parse: parseHost })(name)),
    cert: filePath(`Client certificate that the gateway presents to the ${peer}, in PEM; requires key.`),
    key: filePath("Private key of cert, in PEM, without a passphrase."),
  };
}

const names = ["ca", "serverName", "cert", "key"] as const;

/** `unused`: why the keys of `section` have no effect, as the keys of `because` say; null if they have one. */
export function validateOutboundTls(
  section: string,
  tls: Readonly<Record<(typeof names)[number], string | null>>,
  unused: string | null,
  because: readonly string[],
  refuse: Refuse,
): void {
  const given = names.filter((name) => tls[name] !== null);
  if (unused !== null) {
    for (const name of given) refuse(`${section}.${name}`, `none, since ${unused}`, ...because);
    return;
  }
  for (const [missing, other] of [["cert", "key"] as const, ["key", "cert"] as const]) {
    if (tls[missing] !== null || tls[other] === null) continue;
    const key = `${section}.${other}`;
    refuse(`${section}.${missing}`, `the path of a file, since ${key} has one; name it, or remove ${key}`, key);
  }
}
