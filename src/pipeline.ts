// Decides about a request, from top to bottom; each step names the reason for its place. The same for all transports.
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

/** The returned function makes no promise if neither the limiter nor the authenticator does. */
export function createDecide({ rules, limiter, authenticator }: PipelineParts): Decide {
  function decide(head: RequestHead): Verdict | Promise<Verdict> {
    // The head comes first, because everything else needs the client's key and the route.
    const parsed = parseRequest(head, rules);

    // The quota comes before everything that can refuse: a bad token, a bad path and a malformed message are each
    // charged, or guessing tokens would be free. A request outside of all routes is not charged.
    const { client, route } = parsed;
    const decision = route === null ? limiter.peek(client, head.nowMs) : limiter.acquire(client, head.nowMs);
    return decision instanceof Promise ? chargedLater(head, parsed, decision) : charged(head, parsed, decision);
  }

  function charged(head: RequestHead, parsed: ParsedRequest, decision: Decision): Verdict | Promise<Verdict> {
    // Throttled, malformed, ambiguous or outside of all routes: refused without checking the token.
    const refusal = findRefusal(parsed, decision, rules);
    if (refusal !== null) return { parsed, decision, auth: "skipped", localReply: refusal };
    if (parsed.path.kind === "unmatched" && rules.unmatched === "leave") {
      return { parsed, decision, auth: "skipped", localReply: null };
    }

    // The token comes after them, because its check costs the most.
    const auth = authenticator.authenticate(readBearer(head.rawHeaders));
    return auth instanceof Promise ? authenticatedLater(parsed, decision, auth) : authenticated(parsed, decision, auth);
  }

  function authenticated(parsed: ParsedRequest, decision: Decision, auth: AuthOutcome): Verdict {
    // The announced size comes after the token, so that a client without a token does not learn the limit.
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
