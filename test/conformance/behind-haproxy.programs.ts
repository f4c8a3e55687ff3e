// A real HAProxy in front of the gateway, as its documentation says: it appends the client to X-Forwarded-For and passes
// the client's Connection on. Whatever the client names there, the upstream gets all that HAProxy tells.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, stageHttp } from "../support/stage.ts";
import { isInstalled } from "./fuzz/backends/backend.ts";
import { haproxyProgram, startProgram } from "./programs.ts";

const { HEADGATE_REQUIRE } = process.env;
const skip = !isInstalled("haproxy") && HEADGATE_REQUIRE !== "all";
const needs = "(needs haproxy: apt-get install haproxy)";
const cleanup = useCleanup();

const frontend = `
  option forwardfor
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Real-IP %[src]
  http-request set-header X-Request-Id from-the-edge
  http-request set-header X-SSL-Client-CN alice`;

const told: Readonly<Record<string, string[]>> = {
  "X-Forwarded-For": ["127.0.0.1, 127.0.0.1"],
  "X-Forwarded-Proto": ["https"],
  "X-Forwarded-Host": ["api.test"],
  "X-Real-IP": ["127.0.0.1"],
  "X-Request-Id": ["from-the-edge"],
  "X-SSL-Client-CN": ["alice"],
  Via: ["1.1 headgate"],
  Authorization: ["Bearer secret-token"],
  Host: ["api.test"],
};

test.skipIf(skip)(`what HAProxy tells arrives, whatever its client names in Connection ${needs}`, async () => {
  const clientAddress = { trustedProxies: ["127.0.0.0/8"], header: "x-forwarded-for" as const };
  const overrides = { clientAddress, drain: { timeoutMs: 0 } };
  const { upstream, gateway } = await stageHttp(cleanup, undefined, overrides);
  const haproxy = await startProgram(cleanup, haproxyProgram(`127.0.0.1:${gateway.traffic.port}`, { frontend }));
  const names = Object.keys(told);
  const connections = [...names, names.join(", "), `close, ${names.join(",")}`];
  for (const connection of connections) {
    const client = cleanup(new RawConnection(haproxy.port));
    expect((await client.ask(request("/v2/x", { fields: `Connection: ${connection}\r\n` }))).status).toBe(200);
    const { rawHeaders = [] } = upstream.received.at(-1) ?? {};
    const arrived = Object.fromEntries(names.map((name) => [name, valuesOf(rawHeaders, name)]));
    expect([connection, arrived]).toEqual([connection, told]);
  }
});
