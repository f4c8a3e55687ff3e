// The keys of external authorization (ext-auth): the listeners where an ingress checks requests, and the callers that
// may name the client of a request.
import { type Leaf, listOf, section } from "./definition.ts";
import { choice, filePath, flag, host, network, wholeNumber } from "./leaves.ts";

export const extAuth = section(
  "Listeners for an ingress that carries the traffic itself and checks each request here.",
  {
    http: listener(
      "Over HTTP, for nginx, Caddy, HAProxy, Traefik, Envoy and Istio.",
      9465,
      wholeNumber(
        1000,
        [1, 65535],
        "Open connections of trusted callers; one caller gets at most as many as are free. Other peers share 128 more.",
      ),
    ),
    grpc: listener(
      "Over gRPC, for Envoy and Istio: external authorization, rate limit service and health check.",
      9466,
      wholeNumber(
        256,
        [1, 65535],
        "As extAuth.http.maxConnections. Each connection of a trusted caller has at most 100 calls at once.",
      ),
    ),
    trustedCallers: listOf(
      network,
      { default: [], bounds: [0, 1024], items: "addresses or networks" },
      "Addresses and networks of the ingresses that are trusted; a trusted caller can name any client.",
    ),
    secretsFile: filePath("SHA-256 digests of secrets; a caller that sends one of the secrets is trusted."),
    denyStatus: choice(
      429,
      [429, 403],
      "429: a refusal has its own status. 403: it has 403 instead, except 401; X-Headgate-Status has its own.",
    ),
  },
);

function listener(description: string, port: number, maxConnections: Leaf<number>) {
  return section(description, {
    enabled: flag(false, "Open the listener; requires trustedCallers or secretsFile."),
    host: host("127.0.0.1", "IP address or host name of the listener."),
    port: wholeNumber(port, [0, 65535], "TCP port of the listener; 0 picks a free port."),
    maxConnections,
  });
}
