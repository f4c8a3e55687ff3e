// When an address is ejected, how long, and who finds out that it is well again.
import { expect, test } from "vitest";
import { Endpoint } from "../../src/upstream/endpoints.ts";
import { FakeClock } from "../support/clock.ts";

function start() {
  const clock = new FakeClock();
  const told: string[] = [];
  const endpoint = new Endpoint(
    { host: "::1", port: 3000 },
    {
      onFailover: (address, reason, code, isNews) => told.push(`${address} failedOver ${reason} ${code} ${isNews}`),
      onEjected: (address, reason, backoffMs) => told.push(`${address} ${reason} ${backoffMs}`),
      onRestored: (address) => told.push(`${address} restored`),
      onUnhealthy: (address, fault) => told.push(`${address} unhealthy ${fault}`),
      onHealthy: (address) => told.push(`${address} healthy`),
    },
  );
  const fail = (): void => endpoint.failed("refused", clock.monotonicMs());
  const reset = (): void => endpoint.resetUnanswered(clock.monotonicMs());
  const answer = (): void => endpoint.answered(clock.monotonicMs());
  const isAvailable = (): boolean => endpoint.isAvailable(clock.monotonicMs);
  const beginProbe = (): boolean => endpoint.beginProbe(clock.monotonicMs);
  return { clock, endpoint, told, fail, reset, answer, isAvailable, beginProbe };
}

test("three failures in a row eject it, an answer between them does not", () => {
  const { endpoint, told, fail, answer, isAvailable } = start();
  for (const step of [fail, fail, answer, fail, fail]) step();
  expect([isAvailable(), endpoint.ejectedFor, told]).toEqual([true, null, []]);
  fail();
  expect([isAvailable(), endpoint.ejectedFor, told]).toEqual([false, "refused", ["[::1]:3000 refused 1000"]]);
});

test("a request that another address served is news once, until this one has answered", () => {
  const { endpoint, told, answer } = start();
  const failover = (): void => endpoint.failedOver("refused", "ECONNREFUSED");
  for (const step of [failover, failover, answer, failover]) step();
  expect(told.map((line) => line.split(" ").at(-1))).toEqual(["true", "false", "true"]);
});

test("after a second exactly one request is let through; its answer restores the address", () => {
  const { clock, endpoint, told, fail, answer, isAvailable, beginProbe } = start();
  for (let i = 0; i < 3; i += 1) fail();
  clock.advance(999);
  expect([isAvailable(), beginProbe()]).toEqual([false, false]);
  clock.advance(1);
  expect([isAvailable(), beginProbe(), isAvailable(), beginProbe()]).toEqual([true, true, false, false]);
  answer();
  expect([isAvailable(), endpoint.isEjected, told.at(-1)]).toEqual([true, false, "[::1]:3000 restored"]);
});

test("resets count of an address that never answered, and not for five seconds after an answer", () => {
  const { clock, told, reset, answer, isAvailable } = start();
  answer();
  for (let i = 0; i < 20; i += 1) reset();
  clock.advance(4_999);
  for (let i = 0; i < 20; i += 1) reset();
  expect(isAvailable()).toBe(true);
  clock.advance(1);
  for (let i = 0; i < 3; i += 1) reset();
  expect([isAvailable(), told]).toEqual([false, ["[::1]:3000 reset 1000"]]);
  const fresh = start();
  for (let i = 0; i < 3; i += 1) fresh.reset();
  expect(fresh.isAvailable()).toBe(false);
});

test("each probe that fails doubles the wait, up to half a minute", () => {
  const { clock, told, fail, beginProbe } = start();
  for (let i = 0; i < 3; i += 1) fail();
  for (let i = 0; i < 6; i += 1) {
    clock.advance(30_000);
    expect(beginProbe()).toBe(true);
    fail();
  }
  expect(told.map((line) => Number(line.split(" ")[2]))).toEqual([1, 2, 4, 8, 16, 30, 30].map((s) => s * 1000));
});

test("a probe that shows nothing lets the next one go; what fails for want of another address lengthens nothing", () => {
  const { clock, endpoint, told, fail, isAvailable, beginProbe } = start();
  for (let i = 0; i < 20; i += 1) fail();
  expect(told).toHaveLength(1);
  clock.advance(1_000);
  expect(beginProbe()).toBe(true);
  endpoint.endProbe();
  expect(isAvailable()).toBe(true);
});

test("three bad checks in a row take it out, two good ones in a row bring it back", () => {
  const { clock, endpoint, told, isAvailable } = start();
  const check = (fault: string | null): void => endpoint.checked(fault, clock.monotonicMs());
  for (const fault of ["HTTP 500", "HTTP 500", null, "HTTP 500", "HTTP 500"]) check(fault);
  expect(isAvailable()).toBe(true);
  check("ECONNREFUSED");
  expect([isAvailable(), endpoint.isEjected, endpoint.ejectedFor]).toEqual([false, true, "ECONNREFUSED"]);
  for (const fault of [null, "HTTP 500", null]) check(fault);
  expect(isAvailable()).toBe(false);
  check(null);
  expect([isAvailable(), told]).toEqual([true, ["[::1]:3000 unhealthy ECONNREFUSED", "[::1]:3000 healthy"]]);
});
