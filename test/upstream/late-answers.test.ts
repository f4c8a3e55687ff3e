// An answer that takes longer than the window: what its fields say holds when it is sent, not when it was decided.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { startTestGateway } from "../support/gateway.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

test("Reset is never in the past, and Remaining is what is left by then", async () => {
  const clock = new FakeClock();
  let answer = (): void => {};
  const arrived = Promise.withResolvers<void>();
  const upstream = await startUpstream((_req, res) => {
    answer = () => void res.end("late");
    arrived.resolve();
  });
  cleanup(() => upstream.close());
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, clock }));
  const late = fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer t" } });
  await arrived.promise;
  clock.advance(75_000);
  answer();
  const response = await late;
  expect(response.headers.get("RateLimit-Remaining")).toBe("100");
  const untilResetMs =
    Number(response.headers.get("RateLimit-Reset")) * 1000 - Date.parse(response.headers.get("date") ?? "");
  expect(untilResetMs).toBeGreaterThan(59_000);
});
