// The keys of the ext-auth endpoints: where an ingress may ask what would become of a request, and who is believed when
// it names the client.
import { listOf, section } from "./definition.ts";
import { choice, filePath, flag, wholeNumber } from "./leaves.ts";
import { host, network } from "./place-leaves.ts";

export const extAuth = section("Where an ingress asks for decisions, without sending traffic through the gateway.", {
  http: section("For nginx, Caddy, HAProxy, Traefik, and Envoy or Istio over HTTP.", {
    enabled: flag(false, "Opens the listener; trustedCallers or secretsFile has to say who may ask."),
    host: host("127.0.0.1", "The address of the ext-auth listener."),
    port: wholeNumber(9465, [0, 65535], "The port of the ext-auth listener; 0 picks a free one."),
    maxConnections: wholeNumber(
      1000,
      [1, 65535],
      "Connections of callers at once, besides 64 of peers that have not shown yet that they may ask.",
    ),
  }),
  grpc: section("For Envoy and Istio over gRPC: external authorization, rate limit service, and gRPC's health check.", {
    enabled: flag(false, "Opens the gRPC listener; trustedCallers or secretsFile has to say who may ask."),
    host: host("127.0.0.1", "The address of the gRPC listener."),
    port: wholeNumber(9466, [0, 65535], "The port of the gRPC listener; 0 picks a free one."),
    maxConnections: wholeNumber(
      256,
      [1, 65535],
      "Connections of callers at once, each with at most 100 calls at once, besides 64 of other peers.",
    ),
  }),
  trustedCallers: listOf(network, {
    default: [],
    description: "Addresses and networks of ingresses that may ask, and so name any client.",
    minItems: 0,
    maxItems: 1024,
    expected: "a list of at most 1024 addresses or networks",
    flaws: () => [],
  }),
  secretsFile: filePath("Digests of the secrets by which other callers are known (`headgate token` makes both)."),
  denyStatus: choice(
    429,
    [429, 403],
    "The status that refuses: 429 stands for each refusal's own, 403 for all but 401 (X-Headgate-Status has it).",
  ),
});
