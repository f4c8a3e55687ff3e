// Decides about a request, from top to bottom; each step names the reason for its place. The same for all transports.
import type { Authenticator, AuthOutcome } from "./core/authenticator.ts";
import { readBearer } from "./core/bearer.ts";
import type { Limiter } from "./core/limiter.ts";
import { type LocalReply, localReplies } from "./core/local-reply.ts";
import type { Decision } from "./core/policy.ts";
import type { RefusalBudget } from "./core/refusal-budget.ts";
import {
  findBodyRefusal,
  findRefusal,
  type ParsedRequest,
  parseRequest,
  parseWithoutPath,
  type RequestHead,
  type RequestOrigin,
  type RequestRules,
  readOrigin,
  type Verdict,
} from "./core/request-head.ts";
import type { PathReading } from "./core/request-path.ts";

export interface PipelineParts {
  readonly rules: RequestRules;
  readonly limiter: Limiter;
  readonly authenticator: Pick<Authenticator, "authenticate">;
  /** Null: refusals that spend no quota are not bounded. */
  readonly refusals: RefusalBudget | null;
}

export type Decide = (head: RequestHead) => Verdict | Promise<Verdict>;

/** The returned function makes no promise if neither the limiter nor the authenticator does. */
export function createDecide({ rules, limiter, authenticator, refusals }: PipelineParts): Decide {
  function decide(head: RequestHead): Verdict | Promise<Verdict> {
    // The client, and a path in a usual spelling, are read first: everything else needs them, and they cost little.
    const origin = readOrigin(head, rules);
    if (refusals === null || needsNoBudget(origin.plainPath, rules)) return read(head, origin);

    // The request may be refused without being charged. If the client's budget for such refusals is used up, or its
    // quota, the request is refused now, because reading the path costs more. Requests plainly under a route pass above.
    const isSpent = refusals.isSpent(origin.client, head.nowMs);
    if (!isSpent && (origin.plainPath !== undefined || rules.unmatched !== "reject")) return read(head, origin);
    const quota = limiter.peek(origin.client, head.nowMs);
    if (quota instanceof Promise) return unlessRefusedLater(head, origin, quota, isSpent);
    return refuseUnread(head, origin, quota, isSpent) ?? read(head, origin);
  }

  function read(head: RequestHead, origin: RequestOrigin): Verdict | Promise<Verdict> {
    const parsed = parseRequest(head, origin, rules);

    // The quota comes before everything that can refuse: a bad token, a bad path and a malformed message are each
    // charged, or guessing tokens would be free. A request outside of all routes is not charged.
    const { client, route } = parsed;
    const decision = route === null ? limiter.peek(client, head.nowMs) : limiter.acquire(client, head.nowMs);
    return decision instanceof Promise ? chargedLater(head, parsed, decision) : charged(head, parsed, decision);
  }

  function charged(head: RequestHead, parsed: ParsedRequest, decision: Decision): Verdict | Promise<Verdict> {
    // Throttled, malformed, ambiguous or outside of all routes: refused without checking the token.
    const refusal = findRefusal(parsed, decision, rules);
    if (refusal !== null) {
      if (decision.outcome === "observed") refusals?.spend(parsed.client, head.nowMs);
      return { parsed, decision, auth: "skipped", localReply: refusal };
    }
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

  async function unlessRefusedLater(
    head: RequestHead,
    origin: RequestOrigin,
    quota: Promise<Decision>,
    isSpent: boolean,
  ): Promise<Verdict> {
    return refuseUnread(head, origin, await quota, isSpent) ?? read(head, origin);
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

/** Returns whether a request with this path is charged, or passes: it cannot be refused without spending quota. */
function needsNoBudget(plainPath: PathReading | undefined, { unmatched }: RequestRules): boolean {
  return plainPath?.kind === "route" || (plainPath?.kind === "unmatched" && unmatched !== "reject");
}

/** Returns the refusal of a request whose path is not read; null if the path has to be read. */
function refuseUnread(head: RequestHead, origin: RequestOrigin, quota: Decision, isSpent: boolean): Verdict | null {
  if (!isSpent && quota.remaining > 0) return null;
  const parsed = parseWithoutPath(head, origin);
  if (isSpent) return { parsed, decision: quota, auth: "skipped", localReply: localReplies.tooManyRefusals };
  const decision: Decision = { ...quota, outcome: "throttled" };
  return { parsed, decision, auth: "skipped", localReply: localReplies.throttled };
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
