// Stands in for the gateway until test/support/gateway.ts is there, behind the same function: a sliding window over all
// requests, the fields and the 429 of the contract, and nothing else. To be deleted when the import is switched.
import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Policy } from "../../src/core/policy.ts";

const TOO_MANY = '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}';

export async function startTestGateway(options: { upstreamUrl: string; overrides: { policies: readonly [Policy] } }) {
  const [policy] = options.overrides.policies;
  let admittedAtMs: number[] = [];
  const server = createServer((incoming, response) => {
    const nowMs = performance.now();
    admittedAtMs = admittedAtMs.filter((atMs) => nowMs - atMs < policy.windowMs);
    const admitted = admittedAtMs.length < policy.limit;
    if (admitted) admittedAtMs.push(nowMs);
    const leftMs = (admittedAtMs[0] ?? nowMs) + policy.windowMs - nowMs;
    setFields(response, policy.limit, policy.limit - admittedAtMs.length, leftMs);
    if (!admitted) {
      response.writeHead(429, {
        "retry-after": String(Math.ceil(leftMs / 1000)),
        "content-type": "application/json; charset=utf-8",
      });
      response.end(TOO_MANY);
      return;
    }
    const { method = "GET", headers } = incoming;
    const upstream = request(new URL(incoming.url ?? "/", options.upstreamUrl), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    incoming.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function setFields(response: ServerResponse, limit: number, remaining: number, leftMs: number): void {
  const values = { Limit: limit, Remaining: remaining, Reset: Math.ceil((Date.now() + leftMs) / 1000) };
  for (const [name, value] of Object.entries(values)) {
    response.setHeader(`RateLimit-${name}`, value);
    response.setHeader(`X-RateLimit-${name}`, value);
  }
}
