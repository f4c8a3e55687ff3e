// An upstream that fails is told as it is. That it is used again as soon as it is back: upstream-failure.programs.ts.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { request, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

test("an upstream that is away and one that hangs are told apart, in the answer and on the admin listener", async () => {
  const { gateway, upstream, connect } = await stageRaw(cleanup, () => {}, { upstream: { responseTimeoutMs: 300 } });
  const client = connect();
  const health = async (): Promise<unknown> => (await fetch(`${gateway.adminUrl}/readyz`)).json();
  expect((await client.ask(request("/v2/x"))).status).toBe(504);
  expect(await health()).toMatchObject({ status: "ready", upstream: { state: "down", reason: "response_timeout" } });
  await upstream.close();
  expect((await client.ask(request("/v2/x"))).status).toBe(502);
  expect(await health()).toMatchObject({ status: "ready", upstream: { state: "down", reason: "refused" } });
});
