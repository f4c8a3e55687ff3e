// A calendar quota while somebody sets the wall clock: no step back refills it, and Retry-After is true.
import { describe, expect, test } from "vitest";
import { calendarPeriods, type PeriodName, periodLengths } from "../../../src/core/policy.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { request, response, stageRaw } from "../../support/stage.ts";

const cleanup = useCleanup();
const [hour, day] = [3_600_000, 86_400_000];
const limit = 3;

/** A gateway in the middle of a period, whose client has spent its quota. */
async function exhausted(per: PeriodName) {
  const clock = new FakeClock();
  clock.stepWall(Date.UTC(2026, 10, 15, 12, 30) - clock.wallMs());
  const policy = {
    ...slidingPolicy({ limit, windowMs: 1 }),
    rate: { kind: "calendar", per, timezone: "UTC" } as const,
  };
  const { connect } = await stageRaw(
    cleanup,
    (socket) => void socket.write(response("ok")),
    { policies: [policy] },
    clock,
  );
  const ask = async () => {
    // A kept connection would be idle for too long when the clock jumps.
    const client = connect();
    const { status, rawHeaders } = await client.ask(request("/v2/x"));
    client.destroy();
    return { status, retryAfterMs: 1000 * Number(valuesOf(rawHeaders, "Retry-After")[0]) };
  };
  for (let i = 0; i < limit; i += 1) expect((await ask()).status).toBe(200);
  expect((await ask()).status).toBe(429);
  return { clock, ask };
}

const steps: readonly (readonly [per: PeriodName, backMs: number, name: string])[] = [
  ["minute", 2 * 60_000, "two minutes"],
  ["hour", hour, "an hour"],
  ["hour", 2 * hour, "two hours"],
  ["hour", 366 * day, "a year"],
  ["day", 2 * day, "two days"],
  ["month", 40 * day, "40 days"],
  ["month", 60 * day, "60 days"],
];

describe.each(steps)("a quota of a %s", (per, backMs, name) => {
  test(`is not refilled by a clock that goes back by ${name}, and is right again`, async () => {
    const { clock, ask } = await exhausted(per);
    for (const asksBetween of [true, false, true]) {
      clock.stepWall(-backMs);
      if (asksBetween) expect((await ask()).status).toBe(429);
      clock.stepWall(backMs);
      expect((await ask()).status).toBe(429);
    }
  });

  test(`is there after Retry-After, while the clock is ${name} behind, and only once`, async () => {
    const { clock, ask } = await exhausted(per);
    clock.stepWall(-backMs);
    const refused = await ask();
    clock.advance(refused.retryAfterMs - 1000);
    expect((await ask()).status).toBe(429);
    clock.advance(1000);
    for (let i = 0; i < limit; i += 1) expect((await ask()).status).toBe(200);
    clock.stepWall(-backMs);
    expect((await ask()).status).toBe(429);
  });
});

test("a clock that was a year ahead makes no client wait for more than two periods", async () => {
  for (const per of calendarPeriods) {
    const { clock, ask } = await exhausted(per);
    clock.stepWall(366 * day);
    for (let i = 0; i < limit; i += 1) expect((await ask()).status).toBe(200);
    expect((await ask()).status).toBe(429);
    clock.stepWall(-366 * day);
    const { status, retryAfterMs } = await ask();
    expect(status).toBe(429);
    expect(retryAfterMs).toBeLessThanOrEqual(2 * periodLengths[per].longestMs);
    clock.advance(retryAfterMs);
    expect((await ask()).status).toBe(200);
  }
});
