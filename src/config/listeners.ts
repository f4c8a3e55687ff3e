// The listeners: of traffic, of the admin side, and of external authorization (ext-auth), where an ingress checks requests.
import { canonicalHost as canonical, type HostPort } from "../core/ip-address.ts";
import { isLoopback } from "./addresses.ts";
import { type Leaf, type Parsed, section } from "./definition.ts";
import { addressList, choice, filePath, flag, host, networkList, wholeNumber } from "./leaves.ts";
import { serverTls, validateHttp2Suites } from "./tls-suites.ts";
import type { Refuse } from "./written.ts";

export const listen = section("The listener for traffic.", {
  host: host("0.0.0.0", "IP address or host name to listen on."),
  port: wholeNumber(8080, { from: 0, to: 65535 })("TCP port to listen on; 0 picks a free port."),
  proxyProtocol: flag(false)(
    "Require a PROXY protocol header (version 1 or 2), which names the peer, on each connection.",
  ),
  proxyScheme: choice("http", ["http", "https"])(
    "Scheme of the clients whose PROXY header does not say whether they came by TLS, for X-Forwarded-Proto.",
  ),
  maxConnections: wholeNumber(10_000, { from: 1, to: 1_000_000 })(
    "Open connections. At the limit the longest idle one is closed; if none is idle, new ones get 503.",
  ),
  maxConnectionsPerPeer: wholeNumber(1000, { from: 1, to: 1_000_000 })(
    "Open connections of one address or IPv6 network, except proxies; a new one closes one idle for 5 s or gets 503.",
  ),
  newConnectionsPerPeer: wholeNumber(200, { from: 1, to: 1_000_000 })(
    "New connections of one peer per second, and maxConnectionsPerPeer more in a burst; others are closed.",
  ),
  maxRequestsPerConnection: wholeNumber(1000, { from: 1, to: 1_000_000_000 })(
    "Requests on one connection; the last response announces that the connection closes.",
  ),
  tls: section("TLS on the listener; without cert it accepts plain HTTP. Changed files are loaded without a restart.", {
    ...serverTls,
    clientCa: filePath("CA certificates in PEM; each client must present a certificate of one of them (mTLS)."),
    http2: flag(true)("Offer HTTP/2 in addition to HTTP/1.1."),
  }),
});

export const admin = section(
  "The listener for metrics, health and the admin API, separate from traffic.",
  {
    host: host("127.0.0.1", "IP address or host name of the admin listener."),
    port: wholeNumber(9464, { from: 0, to: 65535 })("TCP port of the admin listener; 0 picks a free port."),
    tokensFile: filePath("SHA-256 digests of the tokens of the API; without it, the API does not exist over TCP."),
    hosts: addressList({ items: "hosts", port: 9464 })(
      "Hosts for which the API answers; without any, loopback names and the listener's own address.",
    ),
    socket: filePath("Unix socket on which the API needs no token; only the user of the gateway can open it."),
    tls: section("TLS on the admin listener; without cert it accepts plain HTTP. Changed files are loaded.", serverTls),
    recent: section(
      "What is remembered of refusals, to tell why a request was refused and which keys are refused most. The history of 15 minutes takes 0.4 MB beside it.",
      {
        refusals: wholeNumber(10_000, { from: 0, to: 100_000 })(
          "Refusals to remember, 1 KiB each, five a second per client. A client with a tenth displaces its own. 0: none.",
        ),
        keys: wholeNumber(1000, { from: 0, to: 10_000 })(
          "Keys that are counted for each policy, in at most 0.8 KiB each. 0: none.",
        ),
      },
    ),
  },
  { "token tokens auth password": ["tokensFile"], "allowedHosts origins": ["hosts"], "unix path": ["socket"] },
);

export const extAuth = section(
  "Listeners for an ingress that carries the traffic itself and checks each request here.",
  {
    http: listener(
      "Over HTTP, for nginx, Caddy, HAProxy, Traefik, Envoy and Istio.",
      9465,
      wholeNumber(1000, { from: 1, to: 65535 })(
        "Open connections of trusted callers; one caller gets at most as many as are free. Other peers share 128 more.",
      ),
    ),
    grpc: listener(
      "Over gRPC, for Envoy and Istio: external authorization, rate limit service and health check.",
      9466,
      wholeNumber(256, { from: 1, to: 65535 })(
        "As extAuth.http.maxConnections. Each connection of a trusted caller has at most 100 calls at once.",
      ),
    ),
    trustedCallers: networkList(
      "Addresses and networks of the ingresses that are trusted; a trusted caller can name any client.",
    ),
    secretsFile: filePath("SHA-256 digests of secrets; a caller that sends one of the secrets is trusted."),
    denyStatus: choice(
      429,
      [429, 403],
    )("429: a refusal has its own status. 403: it has 403 instead, except 401; X-Headgate-Status has its own."),
  },
);

function listener(description: string, port: number, maxConnections: Leaf<number>) {
  return section(description, {
    enabled: flag(false)("Open the listener; requires trustedCallers or secretsFile."),
    host: host("127.0.0.1", "IP address or host name of the listener."),
    port: wholeNumber(port, { from: 0, to: 65535 })("TCP port of the listener; 0 picks a free port."),
    maxConnections,
  });
}

export interface Listeners {
  readonly listen: Parsed<typeof listen>;
  readonly admin: Parsed<typeof admin>;
  readonly extAuth: Parsed<typeof extAuth>;
}

export function validateConnections({ listen }: Listeners, refuse: Refuse): void {
  const { maxConnections, maxConnectionsPerPeer } = listen;
  if (maxConnectionsPerPeer <= maxConnections) return;
  const expected = `at most listen.maxConnections (${maxConnections}); lower it, or raise listen.maxConnections`;
  refuse("listen.maxConnectionsPerPeer", expected, "listen.maxConnections");
}

export function validateProxyScheme({ listen }: Listeners, refuse: Refuse): void {
  if (listen.proxyScheme === "http" || listen.proxyProtocol) return;
  const expected = "http, since listen.proxyProtocol is false; set that to true, or remove listen.proxyScheme";
  refuse("listen.proxyScheme", expected, "listen.proxyProtocol");
}

export function validateListenTls({ listen }: Listeners, refuse: Refuse): void {
  validateCertificate("listen.tls", listen.tls, refuse);
  validateHttp2Suites(listen.tls.http2, listen.tls.ciphers, refuse);
}

type CertificateFiles = Record<"cert" | "key", string | null> & { readonly clientCa?: string | null };

function validateCertificate(section: string, { cert, key, clientCa = null }: CertificateFiles, refuse: Refuse): void {
  const [at, keyAt] = [`${section}.cert`, `${section}.key`];
  const other = key !== null ? keyAt : `${section}.clientCa`;
  const expected = "the path of a file, since";
  if (cert === null && (key !== null || clientCa !== null)) {
    refuse(at, `${expected} ${other} is set; name the certificate, or remove ${other}`, other);
  }
  if (key === null && cert !== null) {
    refuse(keyAt, `${expected} ${at} is set; name its private key, or remove ${at}`, at);
  }
}

export function validateAdmin({ admin }: Listeners, refuse: Refuse): void {
  validateCertificate("admin.tls", admin.tls, refuse);
  if (admin.hosts.length > 0 && admin.tokensFile === null && admin.socket === null) {
    const expected = "none, since there is no API; name admin.tokensFile or admin.socket, or remove admin.hosts";
    refuse("admin.hosts", expected, "admin.tokensFile", "admin.socket");
  }
}

export function validateExtAuth({ extAuth }: Listeners, refuse: Refuse): void {
  const open = extAuth.http.enabled ? "http" : extAuth.grpc.enabled ? "grpc" : null;
  if (open === null || extAuth.trustedCallers.length > 0 || extAuth.secretsFile !== null) return;
  const enabled = `extAuth.${open}.enabled`;
  const expected = `the addresses of the ingresses (or extAuth.secretsFile), since ${enabled} is true`;
  refuse("extAuth.trustedCallers", expected, enabled, "extAuth.secretsFile");
}

export function validatePorts(values: Listeners, refuse: Refuse): void {
  const open = openListeners(values);
  for (const [i, [name, one]] of open.entries()) {
    for (const [otherName, other] of open.slice(0, i)) {
      if (!collide(one, other)) continue;
      const hosts = one.host === other.host ? `both are on ${one.host}` : `${one.host} and ${other.host} overlap`;
      const expected = `a port other than ${otherName}.port, because ${hosts}`;
      refuse(`${name}.port`, expected, `${otherName}.port`, `${name}.host`, `${otherName}.host`);
    }
  }
}

export function openListeners({ listen, admin, extAuth }: Listeners): [name: string, HostPort][] {
  const all: [name: string, HostPort & { readonly enabled?: boolean }][] = [
    ["listen", listen],
    ["admin", admin],
    ["extAuth.http", extAuth.http],
    ["extAuth.grpc", extAuth.grpc],
  ];
  return all.filter(([, { enabled = true }]) => enabled);
}

/** Whether the two listeners cannot be opened both. Port 0 picks a free port each time. */
export function collide(a: HostPort, b: HostPort): boolean {
  return a.port !== 0 && a.port === b.port && addressesOverlap(a.host, b.host);
}

function addressesOverlap(a: string, b: string): boolean {
  const hosts = [a, b];
  if (canonical(a) === canonical(b)) return true;
  if (hosts.some((host) => canonical(host) === "localhost"))
    return hosts.every((host) => isLoopback(host) || isAny(host));
  // "::" accepts IPv4 as well, "0.0.0.0" accepts IPv4 only.
  return (
    hosts.map(canonical).includes(canonical("::")) || (hosts.some(isAny) && !hosts.some((host) => host.includes(":")))
  );
}

const isAny = (host: string): boolean => ["::", "0.0.0.0"].map(canonical).includes(canonical(host));
