// THE PIPELINE: what is decided about a request, top to bottom, each step with the reason for its place. It is the same
// for whatever carries the request; gateway.ts makes the parts and puts them around it.
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
  readonly limiter: Limiter;
  readonly authenticator: Pick<Authenticator, "authenticate">;
}

export type Decide = (head: RequestHead) => Verdict | Promise<Verdict>;

/** The returned function decides at once where the limiter and the authenticator do; no promise is made then. */
export function createDecide({ rules, limiter, authenticator }: PipelineParts): Decide {
  function decide(head: RequestHead): Verdict | Promise<Verdict> {
    // Who and what, from the head alone. First, because everything else needs the client's key and the route.
    const parsed = parseRequest(head, rules);

    // The quota goes before everything that can refuse: a bad token, a bad path and a malformed message each cost one,
    // or guessing tokens would be free. What is under no route is only shown the quota.
    const { client, route } = parsed;
    const decision = route === null ? limiter.peek(client, head.nowMs) : limiter.acquire(client, head.nowMs);
    return decision instanceof Promise ? chargedLater(head, parsed, decision) : charged(head, parsed, decision);
  }

  function charged(head: RequestHead, parsed: ParsedRequest, decision: Decision): Verdict | Promise<Verdict> {
    // Over the quota, malformed, ambiguous or under no route: known without asking anyone.
    const refusal = findRefusal(parsed, decision, rules);
    if (refusal !== null) return { parsed, decision, auth: "skipped", localReply: refusal };
    if (parsed.path.kind === "unmatched" && rules.unmatched === "leave") {
      return { parsed, decision, auth: "skipped", localReply: null };
    }

    // The token goes last of what can refuse, because checking it costs the most.
    const auth = authenticator.authenticate(readBearer(head.rawHeaders));
    return auth instanceof Promise ? authenticatedLater(parsed, decision, auth) : authenticated(parsed, decision, auth);
  }

  function authenticated(parsed: ParsedRequest, decision: Decision, auth: AuthOutcome): Verdict {
    // The announced size comes after the token: a client without a token learns nothing of the limits.
    const localReply = findAuthRefusal(auth) ?? findBodyRefusal(parsed, rules);
    return { parsed, decision, auth, localReply };
  }

  async function chargedLater(head: RequestHead, parsed: ParsedRequest, decision: Promise<Decision>): Promise<Verdict> {
    return charged(head, parsed, await decision);
  }

  async function authenticatedLater(
    parsed: ParsedRequest,
    decision: Decision,
    auth: Promise<AuthOutcome>,
  ): Promise<Verdict> {
    return authenticated(parsed, decision, await auth);
  }

  return decide;
}

function findAuthRefusal(auth: AuthOutcome): LocalReply | null {
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
