// However a request comes, and whenever the limiter decides: it is answered with its fields or not at all, its exchange
// ends once, and what was taken for it is given back. Through the real gateway and a real app; only
// the limiter's answers are others.
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { WaitingExchanges } from "../../src/exchange/waiting-exchanges.ts";
import { useCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { slidingPolicy } from "../support/policy.ts";
import { useTls } from "../support/tls-listener.ts";
import { type Answer, answers, useLateLimiter } from "./late-limiter.ts";
import { type StagedCarrier, stagedCarriers, stagedRateLimit } from "./stage.ts";
import { whens } from "./verdicts.ts";

const cleanup = useCleanup();
const tls = useTls();
const limiter = useLateLimiter();
afterEach(() => void vi.restoreAllMocks());

/** A slot that is not given back refuses the next request. */
const policies: readonly Policy[] = [
  slidingPolicy({ limit: 100, windowMs: 60_000 }),
  { ...slidingPolicy({ limit: 1, windowMs: 0 }), name: "at-once", rate: { kind: "concurrency" } },
];

const stageOf = (carrier: StagedCarrier) => carrier.start(cleanup, { tls, policies });

const told: Readonly<Record<Answer, { status: number; problem: string | null; decision: string }>> = {
  admitted: { status: 200, problem: null, decision: "admitted" },
  throttled: { status: 429, problem: "throttled", decision: "throttled" },
  unavailable: { status: 503, problem: "store_unavailable", decision: "unavailable" },
  fails: { status: 500, problem: "internal", decision: "observed" },
};

/** The status that the carrier itself has. A call of gRPC succeeds, whatever it says. */
function statusFor({ name, source }: StagedCarrier, answer: Answer): number | null {
  const isCall = source === "ext-auth" && !name.startsWith("ext-auth HTTP");
  if (isCall) return answer === "fails" ? null : 200;
  return name.startsWith("ext-auth HTTP") && answer === "unavailable" ? 403 : told[answer].status;
}

function expectFields(carrier: StagedCarrier, answer: Answer, headers: readonly string[]): void {
  for (const name of sixFields.map((each) => each.toLowerCase())) {
    expect([answer, headers.filter((each) => each === name)]).toEqual([answer, [name]]);
  }
  // Envoy makes a 429 of whatever is over the limit.
  const isTold = answer === "throttled" || (answer === "unavailable" && carrier === stagedRateLimit);
  expect([answer, headers.includes("retry-after")]).toEqual([answer, isTold]);
}

describe.each([...stagedCarriers, stagedRateLimit])("$name", (carrier) => {
  test.each(whens)("every answer has its fields, %s", async (when) => {
    const stage = await stageOf(carrier);
    for (const [i, answer] of answers.entries()) {
      limiter.says(answer, when);
      const sent = stage.send();
      await eventually("the limiter is asked", () => limiter.asked() === 1);
      limiter.decide();
      expect([answer, await sent.answered]).toEqual([answer, statusFor(carrier, answer)]);
      await eventually("the exchange has ended", () => stage.lines().length === i + 1);
      expect(stage.lines().at(-1)).toMatchObject({ ...told[answer], complete: true });
      if (statusFor(carrier, answer) !== null) expectFields(carrier, answer, await sent.headers);
    }
    expect([stage.failures(), stage.atUpstream()]).toEqual([1, carrier.forwards ? 1 : 0]);
    expect(limiter.held()).toEqual({ now: 0, ever: carrier.forwards ? 1 : 0 });
  });

  test("the client leaves before the decision: it is made all the same, and gives back what it took", async () => {
    const stage = await stageOf(carrier);
    for (const answer of answers) {
      limiter.says(answer, "later");
      const sent = stage.send();
      await eventually("the limiter is asked", () => limiter.asked() === 1);
      sent.leave();
      await sent.answered;
      const before = stage.lines().length;
      limiter.decide();
      await eventually("the exchange has ended", () => stage.lines().length === before + 1);
      expect(stage.lines().at(-1)).toMatchObject({ decision: told[answer].decision });
    }
    limiter.says("admitted", "at once");
    const before = stage.lines().length;
    expect(await stage.send().answered).toBe(200);
    // A head over HTTP/2 may come before the end of the stream.
    await eventually("the exchange has ended", () => stage.lines().length === before + 1);
    expect(limiter.held()).toEqual({ now: 0, ever: carrier.forwards ? 2 : 0 });
  });

  test("the drain does not wait for the decision, and what it takes afterwards is given back", async () => {
    const stage = await stageOf(carrier);
    limiter.says("admitted", "later");
    const sent = stage.send();
    await eventually("the limiter is asked", () => limiter.asked() === 1);
    await stage.close();
    expect(stage.lines()).toMatchObject([{ complete: false }]);
    limiter.decide();
    expect(await sent.answered).toBeNull();
    const expected = carrier.forwards ? 1 : 0;
    await eventually("the decision is made", () => limiter.held().ever === expected && limiter.held().now === 0);
    expect([stage.lines().length, stage.failures(), stage.atUpstream()]).toEqual([1, 0, 0]);
  });
});

test("an exchange that has waited for its decision is not remembered afterwards", async () => {
  const [add, forget] = [vi.spyOn(WaitingExchanges.prototype, "add"), vi.spyOn(WaitingExchanges.prototype, "delete")];
  const stage = await stageOf(stagedCarriers[0] as StagedCarrier);
  for (const [i, answer] of answers.entries()) {
    limiter.says(answer, "later");
    const sent = stage.send();
    await eventually("the limiter is asked", () => limiter.asked() === 1);
    limiter.decide();
    await sent.answered;
    await eventually("the exchange has ended", () => stage.lines().length === i + 1);
  }
  expect(add).toHaveBeenCalledTimes(answers.length);
  expect(forget.mock.calls).toEqual(add.mock.calls);
});
