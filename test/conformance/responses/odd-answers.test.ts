// The table of odd answers through the gateway: what the client gets, and what the log says of those that are refused.
import { beforeAll, expect, test } from "vitest";
import { useCleanup, useSharedCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { request, type Stage, stageRaw } from "../../support/stage.ts";
import type { RawUpstream } from "../../support/upstream.ts";
import { oddAnswers } from "./odd-answers.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const clock = new FakeClock();
let stage: Stage<RawUpstream>;
let sent = "";
beforeAll(async () => {
  const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
  stage = await stageRaw(sharedCleanup, (socket) => void socket.end(sent, "latin1"), { policies }, clock);
});

test.each(oddAnswers)("%s", async (_, bytes, ours) => {
  sent = bytes;
  // At most five lines are written in a second.
  clock.advance(1_000);
  const { connect, gateway } = stage;
  const before = gateway.logLines.length;
  const answer = await cleanup(connect())
    .ask(request("/v2/x"))
    .catch(() => null);
  const line = (msg: string) => gateway.logLines.slice(before).find((each) => each["msg"] === msg);
  await eventually("it is logged", () => line("request") !== undefined);
  if (typeof ours === "string") {
    expect(answer).toMatchObject({ status: Number(/^HTTP\/1\.\d (\d+)/.exec(bytes)?.[1]), body: ours });
    expect(line("upstream failed")).toBeUndefined();
  } else {
    const [rule, number, field] = ours;
    // A body that is malformed may be refused before its head has left.
    expect([502, undefined]).toContain(answer?.status);
    expect(line("upstream failed")).toMatchObject({ reason: "malformed", rule, line: number, field });
    expect(line("request")).toMatchObject({ brokenRule: rule, line: number, field });
  }
});
