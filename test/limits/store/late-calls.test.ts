// When a call is overdue, and which requests wait for it.
import { expect, test, vi } from "vitest";
import type { OnAnswer, StoreLink } from "../../../src/core/store-link.ts";
import { Question, type SentItem, StoreCalls } from "../../../src/limits/store/calls.ts";
import { StoreCounts } from "../../../src/limits/store/items.ts";
import { mostItems } from "../../../src/limits/store/script-call.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import { ManualTimers } from "./manual-timers.ts";
import { someCredits } from "./some-credits.ts";

const waitMs = 10;

/** The store answers only what the test answers. */
function callsOf() {
  const answers: OnAnswer[] = [];
  const caughtUp = vi.fn();
  const timers = new ManualTimers();
  const overdue = vi.fn();
  const shard = { number: 0, state: { state: "up", overdue, caughtUp, failed() {} }, overdue: 0 } as unknown as Shard;
  const calls = new StoreCalls({
    ...{ timers, clock: timers.clock, counts: new StoreCounts(), waitMs },
    link: {
      isClustered: false,
      call: (_shard: number, _keys: unknown, _args: unknown, answered: OnAnswer) => void answers.push(answered),
    } as unknown as StoreLink,
    prepare: (_, credits) =>
      ({ credits, item: { item: "sliding", key: "k", reports: [], told: null } }) as unknown as SentItem,
    answered() {},
    onAnswered() {},
    onWaited() {},
  });
  return {
    timers,
    answers,
    caughtUp,
    overdue,
    add: (question: Question | null, credits = someCredits()) =>
      calls.add(shard, credits, question === null ? 0 : 1, question),
  };
}

test("a call without a request is not overdue because this thread was long about sending it", () => {
  const { timers, overdue, add } = callsOf();
  add(null);
  timers.advance(waitMs);
  timers.endTurn();
  expect(overdue).not.toHaveBeenCalled();
  timers.advance(waitMs);
  timers.endTurn();
  expect(overdue).toHaveBeenCalledOnce();
});

test("a call that requests wait for is overdue when they have waited", () => {
  const { timers, overdue, add } = callsOf();
  const concluded = vi.fn();
  add(new Question(concluded));
  timers.endTurn();
  timers.advance(waitMs);
  timers.endTurn();
  expect(overdue).toHaveBeenCalledOnce();
  expect(concluded.mock.calls).toEqual([["alone"]]);
});

test("the shard is not slow any more when its last overdue call has failed", () => {
  const { timers, answers, caughtUp, add } = callsOf();
  add(null);
  timers.endTurn();
  timers.advance(waitMs);
  timers.endTurn();
  expect(caughtUp).not.toHaveBeenCalled();
  for (const answered of answers) answered(null, { kind: "failed", detail: "WRONGTYPE" });
  expect(caughtUp).toHaveBeenCalledOnce();
});

test("many requests of one key that arrive together are concluded in portions, call by call", () => {
  const { timers, answers, add } = callsOf();
  const credits = someCredits({ isByRequest: true });
  let concluded = 0;
  for (let i = 0; i < 2.5 * mostItems; i += 1) {
    const question = new Question(() => {
      concluded += 1;
    });
    add(question, credits);
  }
  timers.endTurn();
  const failure = { kind: "failed", detail: "" } as const;
  const after = answers.map((answered) => {
    answered(null, failure);
    return concluded;
  });
  expect(after).toEqual([mostItems, 2 * mostItems, 2.5 * mostItems]);
});
