// Requests as Envoy documents them, for tests to change.

/** All that AttributeContext can have, most of which a decision does not need. */
export const fullCheckRequest = {
  attributes: {
    source: {
      address: { socket_address: { address: "192.0.2.7", port_value: 34_512 } },
      service: "edge",
      labels: { app: "web" },
      principal: "spiffe://cluster.local/ns/default/sa/web",
      certificate: "-----BEGIN%20CERTIFICATE-----",
    },
    destination: { address: { socket_address: { address: "192.0.2.1", port_value: 8_443 } }, principal: "api" },
    request: {
      time: { seconds: 1_700_000_000, nanos: 999_999_999 },
      http: {
        id: "13434093428",
        method: "POST",
        headers: { ":method": "POST", authorization: "Bearer abc", "x-note": "é" },
        path: "/v2/transactions?limit=5",
        host: "api.example.com",
        scheme: "https",
        size: -1,
        protocol: "HTTP/2",
        body: "a body",
        raw_body: Buffer.from([1, 2, 3]),
      },
    },
    context_extensions: { virtual_host: "api" },
    metadata_context: { filter_metadata: { "envoy.filters.http.jwt_authn": { fields: { a: { numberValue: 1 } } } } },
    tls_session: { sni: "api.example.com" },
  },
};

export function checkRequest(http: object = {}, address = "192.0.2.7"): object {
  const headers = { ":authority": "api.test", ":method": "GET", ":path": "/v2/me", authorization: "Bearer abc" };
  const standard = { method: "GET", path: "/v2/me", host: "api.test", scheme: "http", protocol: "HTTP/1.1", headers };
  const source = { address: { socket_address: { address, port_value: 34_512 } } };
  return { attributes: { source, request: { http: { ...standard, ...http } } } };
}

export function rateLimitRequest(entries: Readonly<Record<string, string>> = {}, rest: object = {}): object {
  const all = { remote_address: "192.0.2.7", path: "/v2/me", ...entries };
  const descriptor = { entries: Object.entries(all).map(([key, value]) => ({ key, value })) };
  return { domain: "headgate", descriptors: [descriptor], ...rest };
}
