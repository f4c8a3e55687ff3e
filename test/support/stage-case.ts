// A row of the table of answers on its stage: its upstream, the gateway with its settings, and what has to be so before.
import type { AnswerCase } from "./answer-cases.ts";
import type { Cleanup } from "./cleanup.ts";
import { type Overrides, type Serving, type StartServing, startTestGateway } from "./gateway.ts";
import { startRawUpstream } from "./upstream.ts";

export function stageCase(row: AnswerCase, cleanup: Cleanup, more: Overrides = {}) {
  return stageServing(row, cleanup, startTestGateway, more);
}

/** The same with something else in the gateway's place. */
export async function stageServing<S extends Serving>(
  row: AnswerCase,
  cleanup: Cleanup,
  start: StartServing<S>,
  more: Overrides = {},
) {
  const raw = cleanup(await startRawUpstream((socket) => row.upstream?.(socket)));
  const upstreamUrl = (await row.upstreamUrl?.(cleanup)) ?? raw.url;
  const overrides = { drain: { timeoutMs: 0 }, ...row.overrides, ...more };
  const gateway = cleanup(await start({ upstreamUrl, overrides }));
  await row.before?.(gateway, cleanup);
  return { gateway, raw, upstreamUrl };
}
