// What an operator is told of the upstream, as the traffic shows it; and that a path in the upstream's URL is kept.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { freePort } from "../support/free-port.ts";
import { startTestGateway } from "../support/gateway.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const headers = { authorization: "Bearer t" };

test("the upstream's state is unknown, then down with its reason, then up again, and never makes the gateway unready", async () => {
  const port = await freePort();
  const gateway = cleanup(await startTestGateway({ upstreamUrl: `http://127.0.0.1:${port}` }));
  const told = async (): Promise<unknown> => {
    const response = await fetch(`${gateway.adminUrl}/readyz`);
    expect(response.status).toBe(200);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    const state = /^headgate_upstream_state\{state="(\w+)"\} 1$/m.exec(metrics)?.[1];
    return { ...((await response.json()) as object), state };
  };
  expect(await told()).toEqual({ status: "ready", upstream: { state: "unknown", reason: null }, state: "unknown" });
  expect((await fetch(`${gateway.url}/v2/x`, { headers })).status).toBe(502);
  expect(await told()).toEqual({ status: "ready", upstream: { state: "down", reason: "refused" }, state: "down" });
  cleanup(await startUpstream(undefined, port));
  expect((await fetch(`${gateway.url}/v2/x`, { headers })).status).toBe(200);
  expect(await told()).toEqual({ status: "ready", upstream: { state: "up", reason: null }, state: "up" });
});

test.each([
  ["/", "/api", "/v2/x?a=%20b", "/api/v2/x?a=%20b"],
  ["/", "/api/", "/v2//x", "/api/v2//x"],
  ["/finance", "", "/finance/v2/x", "/v2/x"],
  ["/finance", "/api/deep", "/finance/v1/%78?/", "/api/deep/v1/%78?/"],
])(
  "base path %s before clients and %s before the upstream: %s arrives as %s",
  async (basePath, path, sent, arrived) => {
    const upstream = cleanup(await startUpstream());
    const gateway = cleanup(await startTestGateway({ upstreamUrl: `${upstream.url}${path}`, overrides: { basePath } }));
    expect((await fetch(`${gateway.url}${sent}`, { headers })).status).toBe(200);
    expect(upstream.received.map(({ target }) => target)).toEqual([arrived]);
  },
);
