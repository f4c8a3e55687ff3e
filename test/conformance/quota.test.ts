// The promise to clients, kept over real sockets: one exact quota, whatever arrives at once, and a client that waits as told is
// admitted.
import { Agent, request } from "node:http";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { FakeClock } from "../support/clock.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { startUpstream, type TestUpstream } from "../support/upstream.ts";

let upstream: TestUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.close());

interface Answer {
  readonly status: number;
  readonly retryAfterSeconds: number;
}

/** Every address of 127.0.0.0/8 is this machine, so each can be a client of its own. */
function get(
  gateway: TestGateway,
  path: string,
  options: { localAddress?: string; agent?: Agent } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: "Bearer token" };
    const sent = request(`${gateway.url}${path}`, { headers, ...options }, (response) => {
      response.resume().on("end", () => {
        const { statusCode: status = 0, headers } = response;
        resolve({ status, retryAfterSeconds: Number(headers["retry-after"] ?? 0) });
      });
    });
    sent.on("error", reject);
    sent.end();
  });
}

async function gate(limit: number, windowMs: number, clock: Clock = systemClock): Promise<TestGateway> {
  const policies = [slidingPolicy({ limit, windowMs })];
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: { policies }, clock });
  onTestFinished(() => gateway.close());
  return gateway;
}

test("of 1,000 concurrent requests of one client exactly 100 reach the upstream", async () => {
  const gateway = await gate(100, 60_000);
  const hitsBefore = upstream.hits();
  const agent = new Agent({ keepAlive: true, maxSockets: 200 });
  onTestFinished(() => agent.destroy());
  const answers = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => get(gateway, `/v${1 + (i % 2)}/x?${i}`, { agent })),
  );
  expect(upstream.hits() - hitsBefore).toBe(100);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(100);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(900);
});

test("200 clients that wait exactly Retry-After are all admitted", async () => {
  const clock = new FakeClock();
  const gateway = await gate(1, 2_000, clock);
  const clients = Array.from({ length: 200 }, (_, i) => `127.0.${1 + Math.floor(i / 100)}.${1 + (i % 100)}`);
  const due: { readonly localAddress: string; readonly atMs: number }[] = [];
  const statuses: number[] = [];
  const askAgain = async (untilMs: number): Promise<void> => {
    while (due[0] !== undefined && due[0].atMs <= untilMs) {
      clock.nowMs = due[0].atMs;
      statuses.push((await get(gateway, "/v2/x", { localAddress: due[0].localAddress })).status);
      due.shift();
    }
    clock.nowMs = untilMs;
  };
  for (const [i, localAddress] of clients.entries()) {
    await askAgain(clock.nowMs + 7);
    expect((await get(gateway, "/v2/x", { localAddress })).status).toBe(200);
    clock.advance(i % 7);
    const refused = await get(gateway, "/v2/x", { localAddress });
    expect(refused.status).toBe(429);
    due.push({ localAddress, atMs: clock.nowMs + (refused.retryAfterSeconds ?? 0) * 1000 });
    due.sort((one, other) => one.atMs - other.atMs);
  }
  await askAgain(clock.nowMs + 10_000);
  expect(statuses).toEqual(clients.map(() => 200));
});
