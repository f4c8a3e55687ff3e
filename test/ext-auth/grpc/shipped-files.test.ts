// The files of deploy/ingress/ for gRPC, as they stand: what they make Envoy ask, and that the gateway's file is one that
// answers it. Envoy and Istio are not run.
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadSettings } from "../../../src/config/load.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { call } from "./client.ts";
import { check, healthCheck, shouldRateLimit } from "./protocol.ts";
import { checkRequest } from "./requests.ts";
import { at, descriptorOf, readDocuments, readEnvoyFile } from "./shipped-files.ts";
import { stageGrpc } from "./stage.ts";

const cleanup = useCleanup();
const folder = join(import.meta.dirname, "../../../deploy/ingress");
const fields = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].flatMap((name) => [name, `x-${name}`]);

function shippedSettings() {
  const loaded = loadSettings({ file: join(folder, "envoy/headgate-grpc.yaml"), env: {}, cwd: "/", overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  return loaded.settings.extAuth;
}

test("the gateway's file opens the port that the Envoy files ask at, to Envoy", () => {
  const { grpc, trustedCallers } = shippedSettings();
  expect(trustedCallers).toEqual(["127.0.0.1"]);
  for (const file of ["envoy/ext-authz-grpc.yaml", "envoy/rate-limit-grpc.yaml"]) {
    const { grpcService, clusters } = readEnvoyFile(file);
    const cluster = clusters.get(String(at(grpcService, "envoy_grpc.cluster_name")));
    const address = "load_assignment.endpoints.0.lb_endpoints.0.endpoint.address.socket_address";
    expect(at(cluster, address)).toEqual({ address: grpc?.host, port_value: grpc?.port });
    // gRPC needs HTTP/2, which Envoy does not speak unless told to.
    const protocol = at(cluster, "typed_extension_protocol_options");
    const options = (protocol as Record<string, unknown>)["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
    expect(at(options, "explicit_http_config")).toEqual({ http2_protocol_options: {} });
  }
});

test.for(["envoy/ext-authz-grpc.yaml", "envoy/rate-limit-grpc.yaml"])(
  "%s asks for the health of a service that is there",
  async (file) => {
    const stage = await stageGrpc(cleanup, { extAuth: { trustedCallers: shippedSettings().trustedCallers } });
    const service = at(readEnvoyFile(file).clusters.get("headgate"), "health_checks.0.grpc_health_check.service_name");
    expect(service).toBe(file.includes("authz") ? check.path.split("/")[1] : shouldRateLimit.path.split("/")[1]);
    expect(await call(stage.client, healthCheck, { service })).toMatchObject({ message: { status: "SERVING" } });
  },
);

test("external authorization fails closed, with 503, and is answered to Envoy's question", async () => {
  const { filter } = readEnvoyFile("envoy/ext-authz-grpc.yaml");
  expect(filter).toMatchObject({
    transport_api_version: "V3",
    failure_mode_allow: false,
    status_on_error: { code: "ServiceUnavailable" },
  });
  const stage = await stageGrpc(cleanup, { extAuth: { trustedCallers: shippedSettings().trustedCallers } });
  expect(await call(stage.client, check, checkRequest())).toMatchObject({ message: { http_response: "ok_response" } });
});

test("the rate limit file's domain and actions make a question that is answered, and the API's own fields go", async () => {
  const { filter, virtualHost } = readEnvoyFile("envoy/rate-limit-grpc.yaml");
  expect(filter).toMatchObject({ failure_mode_deny: true, rate_limit_service: { transport_api_version: "V3" } });
  const request = { address: "192.0.2.7", fields: { ":path": "/v2/me?limit=5", ":method": "POST" } };
  const descriptors = [descriptorOf(at(virtualHost, "rate_limits.0.actions"), request)];
  const stage = await stageGrpc(cleanup, { extAuth: { trustedCallers: shippedSettings().trustedCallers } });
  const reply = await call<{ statuses: unknown; response_headers_to_add: { key: string }[] }>(
    stage.client,
    shouldRateLimit,
    {
      domain: filter["domain"],
      descriptors,
    },
  );
  expect(reply.message).toMatchObject({ overall_code: "OK", statuses: [{ limit_remaining: 99 }] });
  const added = reply.message?.response_headers_to_add.map(({ key }) => key) ?? [];
  expect(added.sort()).toEqual([...fields].sort());
  expect(at(virtualHost, "response_headers_to_remove")).toEqual(expect.arrayContaining(added));
});

test("Istio's file names one provider, closed on failure, and asks about every request", () => {
  const [mesh, policy] = readDocuments("istio/ext-authz-grpc.yaml");
  const provider = at(mesh, "meshConfig.extensionProviders.0") as Record<string, unknown>;
  expect(provider["envoyExtAuthzGrpc"]).toMatchObject({
    port: shippedSettings().grpc?.port,
    timeout: "250ms",
    failOpen: false,
    statusOnError: "503",
  });
  expect(policy).toMatchObject({
    kind: "AuthorizationPolicy",
    spec: { action: "CUSTOM", provider: { name: provider["name"] }, rules: [{}] },
  });
});

test("Envoy Gateway's policy asks over gRPC, closed on failure, with all headers of the request", () => {
  const [policy] = readDocuments("envoy-gateway/security-policy.yaml");
  expect(policy).toMatchObject({ apiVersion: "gateway.envoyproxy.io/v1alpha1", kind: "SecurityPolicy" });
  // Over HTTP the client would get no field of a refusal. With headersToExtAuth, only these are sent.
  expect(at(policy, "spec.extAuth")).toEqual({
    failOpen: false,
    statusOnError: 503,
    timeout: "250ms",
    grpc: { backendRefs: [{ name: "headgate", port: shippedSettings().grpc?.port }] },
  });
});
