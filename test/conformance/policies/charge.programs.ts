// A policy that charges by status: guesses that the upstream refuses count, others do not.
import { describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Policy } from "../../../src/core/policy.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import type { Overrides } from "../../support/gateway.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { sharedCounters } from "../../support/shared-settings.ts";
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
  expect((await connect().ask(request("/v2/login"))).status).toBe(429);
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
    const { status, rawHeaders } = await connect().ask(request("/v2/login"));
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
    return (await connect().ask(bytes)).status;
  };
  const withoutToken = request("/v2/login").replace(/Authorization: .*\r\n/, "");
  expect([await statusOf(withoutToken), await statusOf(withoutToken)]).toEqual([401, 401]);
  expect(await statusOf(withoutToken)).toBe(429);
  expect(await statusOf(request("/v2/me"))).toBe(429);
});

test("a client that leaves before the answer gives nothing back", async () => {
  const { connect, upstream } = await stageRaw(cleanup, () => {}, { policies: [perIp, guesses({ limit: 2 })] });
  for (let i = 1; i <= 2; i += 1) {
    const client = connect().write(request("/v2/login"));
    await eventually("it is at the upstream", () => upstream.bytes().split("GET /v2/login").length === i + 1);
    client.destroy();
    await eventually("the request is cancelled", () => upstream.sockets.size === 0);
  }
  expect((await connect().ask(request("/v2/login"))).status).toBe(429);
});

const minute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;

/** An upstream that holds requests to /v2/held, and refuses others; and a client of a gateway before it. */
async function stageHeld(policy: Policy, overrides: Overrides = {}, clock: Clock = new FakeClock()) {
  const held: ((answer: string) => void)[] = [];
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (data.includes("/held")) held.push((answer) => void socket.write(answer));
      else socket.write(data.includes("/ok") ? accepted : refused);
    },
    { policies: [perIp, policy], ...overrides },
    clock,
  );
  const hold = async (count: number) => {
    const clients = Array.from({ length: count }, () => connect());
    for (const client of clients) client.write(request("/v2/held"));
    await eventually("they are at the upstream", () => held.length === count);
    /** Answers them all. */
    return async (answer: string) => {
      for (const write of held.splice(0)) write(answer);
      return await Promise.all(clients.map(async (client) => (await client.read()).status));
    };
  };
  const ask = async (target = "/v2/login") => {
    const client = connect();
    const { status, rawHeaders } = await client.ask(request(target));
    client.destroy();
    return [status, valuesOf(rawHeaders, "Retry-After")[0]] as const;
  };
  /** A client may have its response before the unit of its request is settled. */
  const eventuallyGets = (status: number, retryAfter?: string) =>
    eventually(`${status} ${retryAfter}`, async () => {
      const got = await ask(status === 200 ? "/v2/ok" : undefined);
      return got[0] === status && got[1] === retryAfter;
    });
  return { gateway, hold, ask, eventuallyGets };
}

describe.each([
  ["in a window", guesses({ limit: 3 }), "900"],
  ["in a period of the calendar", guesses({ limit: 3, rate: minute }), "40"],
])("a refusal %s", (_, policy, wholeWait) => {
  test("beside units that are only held says Retry-After 1, and the next request is admitted once they are back", async () => {
    const { hold, ask, eventuallyGets } = await stageHeld(policy);
    const answerAll = await hold(3);
    expect(await ask("/v2/ok")).toEqual([429, "1"]);
    expect(await answerAll(accepted)).toEqual([200, 200, 200]);
    await eventuallyGets(200);
    for (let i = 0; i < 5; i += 1) expect(await ask("/v2/ok")).toEqual([200, undefined]);
  });

  test("beside units that are kept and units that are held says 1 while these could make room", async () => {
    const { hold, ask, eventuallyGets } = await stageHeld(policy);
    expect([await ask(), await ask()]).toEqual([
      [401, undefined],
      [401, undefined],
    ]);
    const answerAll = await hold(1);
    expect(await ask()).toEqual([429, "1"]);
    expect(await answerAll(refused)).toEqual([401]);
    await eventuallyGets(429, wholeWait);
  });

  test("that would stand without the held units says when it ends", async () => {
    const costly = { ...policy, limit: 7, cost: 3 };
    const { ask, eventuallyGets } = await stageHeld(costly);
    expect([await ask(), await ask()]).toEqual([
      [401, undefined],
      [401, undefined],
    ]);
    await eventuallyGets(429, wholeWait);
    const other = await stageHeld({ ...costly, limit: 8 });
    const answerAll = await other.hold(2);
    expect(await other.ask()).toEqual([429, "1"]);
    expect(await answerAll(refused)).toEqual([401, 401]);
    await other.eventuallyGets(429, wholeWait);
  });
});

test.skipIf(skipRedis)(
  `a refusal beside units that another gateway holds says Retry-After 1${redisNeeded}`,
  async () => {
    const redis = cleanup(await startRedis());
    const start = () => stageHeld(guesses(), { counters: sharedCounters(redis.port) }, systemClock);
    const [first, second] = [await start(), await start()];
    for (const { gateway } of [first, second]) {
      await eventually(
        "the store is up",
        async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1,
      );
    }
    const answerAll = await first.hold(10);
    for (const { ask } of [first, second]) expect(await ask("/v2/ok")).toEqual([429, "1"]);
    await answerAll(accepted);
    await second.eventuallyGets(200);
    const refuseAll = await first.hold(10);
    await refuseAll(refused);
    for (const { ask } of [first, second]) {
      await eventually("the store knows that they are kept", async () => Number((await ask())[1]) > 890);
    }
  },
);

test("a refusal by one thread beside units that requests of another one hold says Retry-After 1", async () => {
  const { hold, ask, eventuallyGets } = await stageHeld(guesses({ limit: 16 }), { workers: 2 }, systemClock);
  const answerAll = await hold(16);
  for (let i = 0; i < 16; i += 1) expect(await ask()).toEqual([429, "1"]);
  await answerAll(accepted);
  await eventuallyGets(200);
});

test("units of a client that left before the answer are kept, and Retry-After speaks of them", async () => {
  const { connect, upstream } = await stageRaw(cleanup, () => {}, { policies: [perIp, guesses({ limit: 1 })] });
  const client = connect().write(request("/v2/login"));
  await eventually("it is at the upstream", () => upstream.sockets.size === 1);
  client.destroy();
  await eventually("the request is cancelled", () => upstream.sockets.size === 0);
  const { status, rawHeaders } = await connect().ask(request("/v2/login"));
  expect([status, Number(valuesOf(rawHeaders, "Retry-After")[0]) > 890]).toEqual([429, true]);
});
