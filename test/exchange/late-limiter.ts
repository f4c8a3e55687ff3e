// A limiter whose decisions come at once or when they are told to, and say what a test wants: the one of the gateway or
// the plugin, with other answers.

import { afterEach, beforeEach, vi } from "vitest";
import type { Decision, Held } from "../../src/core/policy.ts";
import { PolicySteps } from "../../src/limits/limiter.ts";
import { QuotaQuestions } from "../../src/limits/quota-questions.ts";
import { decided } from "../support/decided.ts";
import type { When } from "./verdicts.ts";

export const answers = ["admitted", "throttled", "unavailable", "fails"] as const;
export type Answer = (typeof answers)[number];

export interface LateLimiter {
  /** What is said from now on, and when. Default: admitted, at once. */
  says(answer: Answer, when: When): void;
  /** Decisions that were asked for since the last `says`. */
  asked(): number;
  /** Makes the decisions that are waited for. */
  decide(): void;
  /** What was taken for exchanges that have not ended, and what has ever been. */
  held(): { readonly now: number; readonly ever: number };
}

/** For the limiters that the tests of the file use. */
export function useLateLimiter(): LateLimiter {
  const state = { answer: "admitted" as Answer, when: "at once" as When, asked: 0, now: 0, ever: 0 };
  let waiting: (() => void)[] = [];
  const { ask } = PolicySteps.prototype;
  const { askAll } = QuotaQuestions.prototype;

  const inTime = <T>(make: () => T): T => {
    state.asked += 1;
    if (state.when === "at once") return make();
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    // The interface of what is replaced may promise more than that of a limiter.
    return promise.then(make) as T;
  };
  const watched = (held: Held | null): Held | null => {
    if (held === null) return null;
    state.now += 1;
    state.ever += 1;
    return {
      end(status) {
        state.now -= 1;
        held.end(status);
      },
      switched: (status) => held.switched(status),
    };
  };

  beforeEach(() => {
    Object.assign(state, { answer: "admitted", when: "at once", asked: 0, now: 0, ever: 0 });
    vi.spyOn(PolicySteps.prototype, "ask").mockImplementation(function (this: PolicySteps, request, step) {
      if (step !== "anonymous") return ask.call(this, request, step);
      return inTime(() => {
        if (state.answer === "fails") throw new Error("a bug");
        if (state.answer !== "admitted") return { ...this.show(request.parsed, request.nowMs), outcome: state.answer };
        const decision = ask.call(this, request, step) as Decision;
        return { ...decision, held: watched(decision.held) };
      });
    });
    vi.spyOn(QuotaQuestions.prototype, "askAll").mockImplementation(function (this: QuotaQuestions, requests, nowMs) {
      return inTime(() => {
        if (state.answer === "fails") throw new Error("a bug");
        const outcome = state.answer;
        return decided(askAll.call(this, requests, nowMs)).map((decision) => ({ ...decision, outcome }));
      });
    });
  });
  afterEach(() => vi.restoreAllMocks());

  return {
    says(answer, when) {
      Object.assign(state, { answer, when, asked: 0 });
    },
    asked: () => state.asked,
    decide() {
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    held: () => ({ now: state.now, ever: state.ever }),
  };
}
