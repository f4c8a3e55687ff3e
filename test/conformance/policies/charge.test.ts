// A policy that charges by status: guesses that the upstream refuses count, others do not.
import { expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { request, response, stageRaw } from "../../support/stage.ts";

const cleanup = useCleanup();

const perIp = slidingPolicy({ limit: 1_000, windowMs: 60_000 });
const guesses = (changes: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit: 10, windowMs: 900_000 }),
  name: "failed-logins",
  chargeStatuses: [401, 403],
  ...changes,
});

const refused = response("no", "", "401 Unauthorized");
const accepted = response("ok");

test("of 100 guesses at once the upstream answers ten", async () => {
  let held: (() => void)[] = [];
  const { connect, upstream } = await stageRaw(cleanup, (socket) => void held.push(() => socket.write(refused)), {
    policies: [perIp, guesses()],
  });
  const clients = Array.from({ length: 100 }, () => connect());
  for (const client of clients) client.write(request("/v2/login"));
  const answers = clients.map((client) => client.read());
  await eventually("ten guesses are at the upstream", () => held.length === 10);
  const over: number[] = [];
  for (const answer of answers) void answer.then(({ status }) => status === 429 && over.push(status));
  await eventually("the others are refused", () => over.length === 90);
  expect(held).toHaveLength(10);
  for (const answer of held) answer();
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 401)).toHaveLength(10);
  held = [];
  const next = connect();
  next.write(request("/v2/login"));
  expect((await next.read()).status).toBe(429);
  expect(held).toEqual([]);
  expect(upstream.bytes().match(/GET \/v2\/login/g)).toHaveLength(10);
});

test("an answer with another status gives its unit back, and Retry-After speaks of the oldest failure", async () => {
  const clock = new FakeClock();
  const answers = [refused, accepted, refused];
  const { connect } = await stageRaw(
    cleanup,
    (socket) => void socket.write(answers.shift() ?? accepted),
    { policies: [perIp, guesses({ limit: 2 })] },
    clock,
  );
  const ask = async () => {
    // A kept connection would be idle for too long when the clock jumps, and could be closed before its next request is read.
    const client = connect();
    client.write(request("/v2/login"));
    const { status, rawHeaders } = await client.read();
    clock.advance(1_000);
    return { status, retryAfter: valuesOf(rawHeaders, "Retry-After") };
  };
  expect([(await ask()).status, (await ask()).status, (await ask()).status]).toEqual([401, 200, 401]);
  // Three seconds have passed since the first failure.
  expect(await ask()).toEqual({ status: 429, retryAfter: ["897"] });
  clock.advance(896_000);
  expect((await ask()).status).toBe(200);
});

test("the gateway's own 401 counts as the upstream's does", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(accepted), {
    policies: [perIp, guesses({ limit: 2 })],
  });
  const statusOf = async (bytes: string) => {
    const client = connect();
    client.write(bytes);
    return (await client.read()).status;
  };
  const withoutToken = request("/v2/login").replace(/Authorization: .*\r\n/, "");
  expect([await statusOf(withoutToken), await statusOf(withoutToken)]).toEqual([401, 401]);
  expect(await statusOf(withoutToken)).toBe(429);
  expect(await statusOf(request("/v2/me"))).toBe(429);
});

test("a client that leaves before the answer gives nothing back", async () => {
  const { connect, upstream } = await stageRaw(cleanup, () => {}, { policies: [perIp, guesses({ limit: 2 })] });
  for (let i = 1; i <= 2; i += 1) {
    const client = connect();
    client.write(request("/v2/login"));
    await eventually("it is at the upstream", () => upstream.bytes().split("GET /v2/login").length === i + 1);
    client.destroy();
    await eventually("the request is cancelled", () => upstream.sockets.size === 0);
  }
  const client = connect();
  client.write(request("/v2/login"));
  expect((await client.read()).status).toBe(429);
});
