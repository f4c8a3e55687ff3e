// Aborting: at any time, at once, with the caller's reason, and with nothing left behind.
import { getEventListeners } from "node:events";
import { expect, test, vi } from "vitest";
import { createRetryingFetch, listTransactions } from "../../src/client/index.ts";
import { sleep } from "../../src/client/sleep.ts";
import { refuse, refusing, serve } from "./server.ts";

const REASON = new Error("changed my mind");

test.each(["init", "Request"])("aborting the signal of the %s ends a wait of an hour", async (carrier) => {
  const server = await serve(refusing(9, { "retry-after": "3600" }));
  const controller = new AbortController();
  const waiting = Promise.withResolvers<void>();
  const patient = createRetryingFetch({
    maxWaitMs: 1e9,
    sleep: (ms, signal) => {
      const slept = sleep(ms, signal);
      waiting.resolve();
      return slept;
    },
  });
  const { signal } = controller;
  const answer = carrier === "init" ? patient(server.url, { signal }) : patient(new Request(server.url, { signal }));
  const settled = answer.catch((error: unknown) => error);
  await waiting.promise;
  controller.abort(REASON);
  expect(await settled).toBe(REASON);
  expect(server.hits).toHaveLength(1);
});

test("a signal of null in init stands in for the Request's", async () => {
  const server = await serve(refusing(1, { "retry-after": "1" }));
  const signals: unknown[] = [];
  const patient = createRetryingFetch({ sleep: async (_ms, signal) => void signals.push(signal) });
  await patient(new Request(server.url, { signal: new AbortController().signal }), { signal: null });
  expect(signals).toEqual([null]);
});

test("aborting while the answer is awaited rejects with the reason", async () => {
  const controller = new AbortController();
  const server = await serve(() => controller.abort(REASON));
  await expect(createRetryingFetch()(server.url, { signal: controller.signal })).rejects.toBe(REASON);
});

test("a signal aborted before sends nothing", async () => {
  const server = await serve(refusing(0));
  await expect(createRetryingFetch()(server.url, { signal: AbortSignal.abort(REASON) })).rejects.toBe(REASON);
  expect(server.hits).toHaveLength(0);
});

test("a sleep leaves no listener behind, slept out or aborted", async () => {
  const controller = new AbortController();
  await sleep(1, controller.signal);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  const cut = sleep(3_600_000, controller.signal);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  controller.abort(REASON);
  await expect(cut).rejects.toBe(REASON);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  await expect(sleep(1, controller.signal)).rejects.toBe(REASON);
});

test("an aborted sleep leaves no timer behind to keep the process up", async () => {
  vi.useFakeTimers();
  try {
    const controller = new AbortController();
    const cut = sleep(3_600_000, controller.signal);
    expect(vi.getTimerCount()).toBe(1);
    controller.abort(REASON);
    await expect(cut).rejects.toBe(REASON);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a sleep longer than a platform timer holds is slept to its end and no less", async () => {
  vi.useFakeTimers();
  try {
    const done = vi.fn();
    const slept = sleep(2 ** 32, null).then(done);
    await vi.advanceTimersByTimeAsync(2 ** 32);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    await slept;
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a listing stops between two records of a page, and asks for no other", async () => {
  const page = { transactions: [{ date: "2026-01-01" }, { date: "2026-01-02" }], has_more: true };
  const server = await serve((response) => void response.end(JSON.stringify(page)));
  const controller = new AbortController();
  const seen: string[] = [];
  const walk = async () => {
    const options = { baseUrl: server.url, token: "secret", limit: 2, signal: controller.signal };
    for await (const { date } of listTransactions(options)) {
      seen.push(date);
      controller.abort(REASON);
    }
  };
  await expect(walk()).rejects.toBe(REASON);
  expect([seen, server.hits.length]).toEqual([["2026-01-01"], 1]);
});

test("a listing that waits out a 429 with the default fetch can be aborted", async () => {
  const controller = new AbortController();
  const server = await serve((response) => {
    refuse(response, { "retry-after": "60" });
    setImmediate(() => controller.abort(REASON));
  });
  const walk = listTransactions({ baseUrl: server.url, token: "secret", signal: controller.signal }).pages().next();
  await expect(walk).rejects.toBe(REASON);
});
