// THE PIPELINE: what happens to a request, top to bottom, each step with the reason for its place. It is the same for
// whatever carries the request; gateway.ts makes the parts and puts them around it.
import { readBearer } from "./core/bearer.ts";
import type { CounterStore } from "./core/counter-store.ts";
import {
  findBodyRefusal,
  findRefusal,
  type RequestFacts,
  type RequestReading,
  type RequestRules,
  readRequest,
  type Verdict,
} from "./core/decide.ts";
import type { AuthOutcome } from "./core/exchange.ts";
import type { Decision } from "./core/policy.ts";
import { type Problem, problems } from "./core/problem.ts";
import type { Verifier } from "./core/verifier.ts";

export interface PipelineParts {
  readonly rules: RequestRules;
  readonly store: CounterStore;
  readonly verifier: Pick<Verifier, "verify">;
}

export type Decide = (facts: RequestFacts) => Verdict | Promise<Verdict>;

/** The returned function answers at once as long as the counters and the verifier do. */
export function createDecide({ rules, store, verifier }: PipelineParts): Decide {
  return (facts) => {
    // Who and what, from the head alone. First, because everything else needs the client's key and the route.
    const reading = readRequest(facts, rules);

    // The quota goes before everything that can refuse: a bad token, a bad path and a malformed message each cost one,
    // or guessing tokens would be free. What is under no route is only shown the quota.
    const counted =
      reading.route === null ? store.peek(reading.client, facts.nowMs) : store.take(reading.client, facts.nowMs);

    return whenReady(counted, (decision) => {
      // Over the quota, malformed, ambiguous or under no route: known without asking anyone.
      const refusal = findRefusal(reading, decision, rules);
      if (refusal !== null) return verdict(reading, decision, "skipped", refusal);

      // The token goes last of what can refuse, being the dearest to check.
      return whenReady(verifier.verify(readBearer(facts.rawFields)), (auth) => {
        // The announced size comes after the token: a stranger learns nothing of the limits.
        const problem = authProblem(auth) ?? findBodyRefusal(reading, rules);
        return verdict(reading, decision, auth, problem);
      });
    });
  };
}

function verdict(reading: RequestReading, decision: Decision, auth: AuthOutcome, problem: Problem | null): Verdict {
  return { reading, decision, auth, problem };
}

function authProblem(auth: AuthOutcome): Problem | null {
  switch (auth) {
    case "accepted":
    case "skipped":
      return null;
    case "missing":
      return problems.noToken;
    case "invalid":
      return problems.invalidToken;
  }
}

/** No promise where none is needed: the local counters answer at once, and so does the pipeline. */
function whenReady<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
