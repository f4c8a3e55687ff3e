// THE PIPELINE: what happens to a request, top to bottom, each step with the reason for its place. It is the same for
// whatever carries the request; gateway.ts makes the parts and puts them around it.

import type { Authenticator, AuthOutcome } from "./core/authenticator.ts";
import { readBearer } from "./core/bearer.ts";
import type { Limiter } from "./core/limiter.ts";
import { type LocalReply, localReplies } from "./core/local-reply.ts";
import type { Decision } from "./core/policy.ts";
import {
  findBodyRefusal,
  findRefusal,
  type ParsedRequest,
  parseRequest,
  type RequestHead,
  type RequestRules,
  type Verdict,
} from "./core/request-head.ts";

export interface PipelineParts {
  readonly rules: RequestRules;
  readonly store: Limiter;
  readonly authenticator: Pick<Authenticator, "verify">;
}

export type Decide = (facts: RequestHead) => Verdict | Promise<Verdict>;

/** The returned function answers at once as long as the counters and the authenticator do. */
export function createDecide({ rules, store, authenticator }: PipelineParts): Decide {
  return (facts) => {
    // Who and what, from the head alone. First, because everything else needs the client's key and the route.
    const reading = parseRequest(facts, rules);

    // The quota goes before everything that can refuse: a bad token, a bad path and a malformed message each cost one,
    // or guessing tokens would be free. What is under no route is only shown the quota.
    const counted =
      reading.route === null ? store.peek(reading.client, facts.nowMs) : store.take(reading.client, facts.nowMs);

    return whenReady(counted, (decision) => {
      // Over the quota, malformed, ambiguous or under no route: known without asking anyone.
      const refusal = findRefusal(reading, decision, rules);
      if (refusal !== null) return verdict(reading, decision, "skipped", refusal);

      // The token goes last of what can refuse, being the dearest to check.
      return whenReady(authenticator.verify(readBearer(facts.rawHeaders)), (auth) => {
        // The announced size comes after the token: a stranger learns nothing of the limits.
        const problem = authProblem(auth) ?? findBodyRefusal(reading, rules);
        return verdict(reading, decision, auth, problem);
      });
    });
  };
}

function verdict(reading: ParsedRequest, decision: Decision, auth: AuthOutcome, problem: LocalReply | null): Verdict {
  return { reading, decision, auth, problem };
}

function authProblem(auth: AuthOutcome): LocalReply | null {
  switch (auth) {
    case "accepted":
    case "skipped":
      return null;
    case "missing":
      return localReplies.noToken;
    case "invalid":
      return localReplies.invalidToken;
  }
}

/** No promise where none is needed: the local counters answer at once, and so does the pipeline. */
function whenReady<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
