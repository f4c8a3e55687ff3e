// Decides about a request, from top to bottom; each step names the reason for its place. The same for all transports.
import {
  type Authentication,
  type AuthOutcome,
  type Identity,
  readBearer,
  type TokenVerifier,
} from "./core/authentication.ts";
import type { AskedRequest, CallerQuota, LimitedClient, Limiter, RefusalBudget } from "./core/limiter.ts";
import { jsonReply, type LocalReply, localReplies, quotaPreflight } from "./core/local-reply.ts";
import { type Awaitable, type Decision, type Held, keyPartText, type Rate } from "./core/policy.ts";
import {
  type DemandReader,
  findBodyRefusal,
  findQuotaRefusal,
  findRefusal,
  type ParsedRequest,
  parseRequest,
  parseWithoutPath,
  type QuotaPath,
  type ReadinessPath,
  type RequestHead,
  type RequestOrigin,
  type RequestRules,
  readOrigin,
  type Verdict,
} from "./core/request-head.ts";
import type { PathReading } from "./core/request-path.ts";
import type { Rule } from "./core/rules.ts";
import type { BlockRules } from "./core/rules-in-force.ts";

export interface PipelineParts {
  readonly rules: RequestRules;
  readonly runtimeRules: BlockRules;
  readonly limiter: Limiter;
  readonly authenticator: TokenVerifier;
  readonly demandOf: DemandReader;
  /** Null: refusals that spend no quota are not bounded. */
  readonly refusals: RefusalBudget | null;
  /** Read again only if something was awaited. */
  readonly nowMs: () => number;
}

/** `nowMs`: the only reading of the monotonic clock, unless something is awaited. */
export type Decide = (head: RequestHead, nowMs: number) => Awaitable<Verdict>;

/** The returned function makes no promise if neither the limiter nor the authenticator does. */
export function createDecide(parts: PipelineParts): Decide {
  const pipeline = new Pipeline(parts);
  return (head, nowMs) => pipeline.decide(head, nowMs);
}

const noScopes: readonly string[] = [];

/** What is known so far of a request on its way through the steps: each of them adds to it. */
class PendingRequest implements AskedRequest {
  readonly head: RequestHead;
  readonly parsed: ParsedRequest;
  /** The clock, read after whatever was waited for. */
  nowMs: number;
  auth: AuthOutcome = "skipped";
  identity: Identity | null = null;
  /** Which its token must have. */
  scopes = noScopes;
  decision: Decision | null = null;

  constructor(head: RequestHead, parsed: ParsedRequest, nowMs: number) {
    this.head = head;
    this.parsed = parsed;
    this.nowMs = nowMs;
  }

  authenticated(authentication: Authentication): void {
    const isIdentity = typeof authentication !== "string";
    this.auth = isIdentity ? "accepted" : authentication;
    this.identity = isIdentity ? authentication : null;
  }

  /** `localReply`: null if the request is forwarded. */
  verdict(localReply: LocalReply | null, blockedBy: Rule | null = null): Verdict {
    const { parsed, decision, auth, identity } = this;
    if (decision === null) throw new Error("no request has a verdict without a decision");
    const verdict = { parsed, decision, auth, identity, localReply };
    return blockedBy === null ? verdict : { ...verdict, blockedBy };
  }
}

/** A step of the pipeline, with what the one before has found. */
type PipelineStep<T> = (this: Pipeline, request: PendingRequest, found: T) => Awaitable<Verdict>;

class Pipeline {
  readonly #parts: PipelineParts;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
  }

  decide(head: RequestHead, nowMs: number): Awaitable<Verdict> {
    const { rules } = this.#parts;
    const known = head.memory?.parsedUnder(rules);
    if (known) {
      const request = new PendingRequest(head, known, nowMs);
      const block = this.#blockOf(known);
      return block === null ? this.#charge(request) : this.#refuseUncharged(request, localReplies.blocked, block);
    }
    // The client, and a path in a usual spelling, are read first: everything else needs them, and they cost little.
    const origin = readOrigin(head, rules);
    // Before what clients behind the load balancer's address could have it refused for.
    if (rules.readiness !== null && origin.target?.path === rules.readiness.path) {
      return this.#tellReadiness(new PendingRequest(head, parseWithoutPath(origin), nowMs), rules.readiness);
    }
    // Before the quota and the path, which a blocked client must not make the gateway read.
    const block = this.#blockOf(origin);
    if (block !== null) {
      const request = new PendingRequest(head, parseCheaply(origin, rules), nowMs);
      return this.#refuseUncharged(request, localReplies.blocked, block);
    }
    const { unparsable } = origin.message;
    if (unparsable !== null)
      return this.#refuseUncharged(new PendingRequest(head, parseWithoutPath(origin), nowMs), unparsable);
    // Before the routes, one of which it may be under.
    if (rules.quota !== null && origin.target?.path === rules.quota.path) {
      return this.#answerQuota(new PendingRequest(head, parseWithoutPath(origin), nowMs), rules.quota);
    }
    return this.#refuseUnread(head, origin, nowMs) ?? this.#read(head, origin, nowMs);
  }

  #blockOf({ counterKey }: LimitedClient): Rule | null {
    const { runtimeRules } = this.#parts;
    return runtimeRules.isEmpty ? null : runtimeRules.blockOfClient(counterKey);
  }

  #blockOfIdentity({ identity }: PendingRequest): Rule | null {
    const { runtimeRules } = this.#parts;
    return identity === null || runtimeRules.isEmpty ? null : runtimeRules.blockOfIdentity(identity);
  }

  /** Spends nothing and asks for nothing: its answers are prepared, so they cost no more than a refusal. */
  #tellReadiness(request: PendingRequest, { reply }: ReadinessPath): Verdict {
    const { problem } = request.parsed.message;
    if (problem !== null) return this.#refuseUncharged(request, problem);
    return this.#observed(request, isRead(request.head.method) ? reply.current : localReplies.methodNotAllowed);
  }

  /** Tells a caller what it has left. Spends no quota: the budget for refusals pays, for wrong tokens too. */
  #answerQuota(request: PendingRequest, quotaPath: QuotaPath): Awaitable<Verdict> {
    const { rules, authenticator } = this.#parts;
    const isPaid = this.#spendRefusal(request);
    const refusal = isPaid ? findQuotaPathRefusal(request, rules) : localReplies.tooManyRefusals;
    if (refusal !== null) return this.#observed(request, refusal);
    return this.#next(
      request,
      authenticator.authenticate(readBearer(request.head.rawHeaders), quotaPath.mode),
      this.#tellQuota,
    );
  }

  #tellQuota(request: PendingRequest, authentication: Authentication): Verdict {
    const { rules, limiter } = this.#parts;
    request.authenticated(authentication);
    // Without a token, only what is counted for the address is told, which every response shows as well.
    const refusal = request.auth === "missing" ? null : findAuthRefusal(request);
    if (refusal !== null) return this.#observed(request, refusal);
    const blockedBy = this.#blockOfIdentity(request);
    if (blockedBy !== null) return this.#observed(request, localReplies.blocked, blockedBy);
    const { routes = [], areCountersShared = false } = rules.quota ?? {};
    const policies = limiter
      .quotasOf(request, routes, request.nowMs)
      .map((quota) => policyAnswer(quota, request.nowMs));
    return this.#observed(
      request,
      jsonReply({ isVerified: request.identity !== null, isShared: areCountersShared, policies }),
    );
  }

  /** Replies to a request that is not charged, and shows the quota of its client. */
  #observed(request: PendingRequest, localReply: LocalReply, blockedBy: Rule | null = null): Verdict {
    request.decision = this.#parts.limiter.show(request.parsed, request.nowMs, true);
    return request.verdict(localReply, blockedBy);
  }

  /** Spends no quota: the budget for refusals pays. */
  #refuseUncharged(request: PendingRequest, reply: LocalReply, blockedBy: Rule | null = null): Verdict {
    return this.#observed(request, this.#payRefusal(request, reply), blockedBy);
  }

  /** Returns the reply to a client that is refused without being charged. */
  #payRefusal(request: PendingRequest, localReply: LocalReply): LocalReply {
    return this.#spendRefusal(request) ? localReply : localReplies.tooManyRefusals;
  }

  /** Returns false if the client's budget for refusals is used up. */
  #spendRefusal({ parsed: { client }, nowMs }: PendingRequest): boolean {
    const { refusals } = this.#parts;
    if (refusals?.isSpent(client, nowMs)) return false;
    refusals?.spend(client, nowMs);
    return true;
  }

  /**
   * Refuses a request that may be refused without being charged, if the client's budget for such refusals is used up, or its quota,
   * because reading the path costs more. Returns null if the path has to be read.
   */
  #refuseUnread(head: RequestHead, origin: RequestOrigin, nowMs: number): Verdict | null {
    const { rules, limiter, refusals } = this.#parts;
    // Requests plainly under a route pass here.
    if (refusals === null || needsNoBudget(origin.plainPath, rules)) return null;
    const isSpent = refusals.isSpent(origin.client, nowMs);
    // The budget also pays for the path of a preflight, which is answered whatever is left of the quota.
    const isAsking = !isSpent && (rules.cors?.answerPreflight(head, origin.message) ?? null) !== null;
    if (isAsking) refusals.spend(origin.client, nowMs);
    if (!isSpent && (isAsking || origin.plainPath !== undefined || rules.unmatched !== "reject")) return null;
    const quota = limiter.show(origin, nowMs);
    // A request with a verified token does not pay for those of others behind its address.
    if (!isSpent && (quota.remaining > 0 || quota.policy.who === "others")) return null;
    limiter.show(origin, nowMs, true);
    const request = new PendingRequest(head, parseWithoutPath(origin), nowMs);
    request.decision = isSpent ? quota : { ...quota, outcome: "throttled" };
    return request.verdict(isSpent ? localReplies.tooManyRefusals : localReplies.throttled);
  }

  #read(head: RequestHead, origin: RequestOrigin, nowMs: number): Awaitable<Verdict> {
    const { rules } = this.#parts;
    const parsed = parseRequest(origin, rules);
    // Other paths have to pass the budget for refusals each time.
    if (origin.plainPath?.kind === "route") head.memory?.remember(parsed, rules);
    return this.#charge(new PendingRequest(head, parsed, nowMs));
  }

  #charge(request: PendingRequest): Awaitable<Verdict> {
    const { limiter, rules } = this.#parts;
    const { head, parsed, nowMs } = request;
    // Before the quota: a preflight over the limit would keep the page from reading the 429 of its call.
    const isOpen = parsed.path.kind === "route" && parsed.upstreamTarget !== null && parsed.message.problem === null;
    const preflight = isOpen ? rules.cors?.answerPreflight(head, parsed.message) : null;
    if (preflight) return this.#refuseUncharged(request, preflight);
    // The quota comes before everything that can refuse: a bad token, a bad path and a malformed message are each
    // charged, or guessing tokens would be free. A request outside of all routes is not charged.
    return parsed.route === null
      ? this.#charged(request, limiter.show(parsed, nowMs, true))
      : this.#next(request, limiter.ask(request, "anonymous"), this.#charged);
  }

  /** What was taken for the request is given back if a later step fails. */
  #charged(request: PendingRequest, decision: Decision): Awaitable<Verdict> {
    request.decision = decision;
    const { held } = decision;
    if (held === null) return this.#check(request, decision);
    try {
      const verdict = this.#check(request, decision);
      return verdict instanceof Promise ? endedIfFailed(verdict, held) : verdict;
    } catch (error) {
      held.end(0);
      throw error;
    }
  }

  #check(request: PendingRequest, decision: Decision): Awaitable<Verdict> {
    const { rules, limiter, refusals } = this.#parts;
    const { parsed, nowMs } = request;
    // Throttled, not to be decided, malformed, ambiguous or outside of all routes: refused without checking the token.
    const refusal = findRefusal(parsed, decision, rules);
    if (refusal !== null) {
      // Nobody has verified it, so it is a request of the others.
      if (limiter.limitsOthers && parsed.route !== null && findQuotaRefusal(decision) === null) {
        return this.#refuseOther(request, refusal);
      }
      // Nothing else bounds the refusals while the store is away.
      if (decision.outcome !== "admitted" && decision.outcome !== "throttled") refusals?.spend(parsed.client, nowMs);
      return request.verdict(refusal);
    }
    // Outside of all routes nothing is asked: no limit, no token. Only what the gateway forwards has a bound on its body.
    if (parsed.path.kind === "unmatched") {
      return request.verdict(rules.unmatched === "proxy" ? findBodyRefusal(parsed, rules) : null);
    }
    // The token comes after them, because its check costs the most.
    return this.#authenticate(request);
  }

  #authenticate(request: PendingRequest): Awaitable<Verdict> {
    const { rules, limiter, authenticator, demandOf, refusals } = this.#parts;
    const { head, parsed, nowMs } = request;
    // A preflight has no token.
    const { cors } = rules;
    const isPreflight = cors !== null && !cors.answersPreflights && cors.isPreflight(head, parsed.message);
    if (isPreflight) return this.#authenticated(request, "skipped");
    const credential = readBearer(head.rawHeaders);
    const demand = demandOf(parsed, head);
    request.scopes = demand.scopes;
    // A client that has used up what the others get, and its budget for refusals, cannot make the gateway verify more.
    if (
      limiter.limitsOthers &&
      refusals?.isSpent(parsed.client, nowMs) &&
      !authenticator.isKnown(credential, demand.mode)
    ) {
      const usedUp = limiter.ask(request, "usedUp");
      if (!(usedUp instanceof Promise) && usedUp.outcome === "throttled") {
        request.decision = { ...usedUp, held: request.decision?.held ?? null };
        return request.verdict(localReplies.tooManyRefusals);
      }
    }
    return this.#next(request, authenticator.authenticate(credential, demand.mode), this.#authenticated);
  }

  #authenticated(request: PendingRequest, authentication: Authentication): Awaitable<Verdict> {
    const { limiter } = this.#parts;
    request.authenticated(authentication);
    const refusal = findAuthRefusal(request);
    if (refusal !== null) {
      return limiter.limitsOthers ? this.#refuseOther(request, refusal) : request.verdict(refusal);
    }

    const blockedBy = this.#blockOfIdentity(request);
    if (blockedBy !== null) {
      // What the step before has charged pays; if there was nothing, nothing else does.
      const isPaid = request.decision?.outcome === "admitted";
      const localReply = isPaid ? localReplies.blocked : this.#payRefusal(request, localReplies.blocked);
      return request.verdict(localReply, blockedBy);
    }

    // The limits on an identity come after its token is verified, or a guessed token could spend another one's quota. They
    // come before its scopes, or asking for what it may not have would be free.
    return this.#next(request, limiter.ask(request, "identified"), this.#admitted);
  }

  #admitted(request: PendingRequest, decision: Decision): Verdict {
    const { parsed, identity, scopes } = request;
    request.decision = decision;
    const hasScopes = scopes.every((scope) => identity?.scopes.includes(scope));
    // The announced size comes after the token, so that a client without a token does not learn the limit.
    const localReply =
      findQuotaRefusal(decision) ??
      (hasScopes ? findBodyRefusal(parsed, this.#parts.rules) : localReplies.insufficientScope);
    return request.verdict(localReply);
  }

  /** Refuses a request without a verified token: the limits on such requests come first, or guessing tokens would be free. */
  #refuseOther(request: PendingRequest, refusal: LocalReply): Awaitable<Verdict> {
    const whole = this.#parts.limiter.ask(request, "refused");
    return whole instanceof Promise
      ? whole.then((later) => this.#otherRefused(request, refusal, later))
      : this.#otherRefused(request, refusal, whole);
  }

  #otherRefused(request: PendingRequest, refusal: LocalReply, decision: Decision): Verdict {
    const { parsed, auth, nowMs } = request;
    request.decision = decision;
    const quotaRefusal = findQuotaRefusal(decision);
    // A path or a token was read in vain, and no quota pays for it.
    const isUnpaid = quotaRefusal !== null || decision.outcome !== "admitted";
    if (isUnpaid && auth !== "missing") this.#parts.refusals?.spend(parsed.client, nowMs);
    return request.verdict(quotaRefusal ?? refusal);
  }

  /** Goes on with a step, now or when is known what it needs. */
  #next<T>(request: PendingRequest, found: Awaitable<T>, step: PipelineStep<T>): Awaitable<Verdict> {
    return found instanceof Promise ? this.#nextLater(request, found, step) : step.call(this, request, found);
  }

  async #nextLater<T>(request: PendingRequest, later: Promise<T>, step: PipelineStep<T>): Promise<Verdict> {
    const found = await later;
    request.nowMs = this.#parts.nowMs();
    return step.call(this, request, found);
  }
}

async function endedIfFailed(verdict: Promise<Verdict>, held: Held): Promise<Verdict> {
  try {
    return await verdict;
  } catch (error) {
    held.end(0);
    throw error;
  }
}

/** A path in an unusual spelling costs more to read, so it is not read. */
function parseCheaply(origin: RequestOrigin, rules: RequestRules): ParsedRequest {
  return origin.plainPath === undefined ? parseWithoutPath(origin) : parseRequest(origin, rules);
}

/** Returns whether a request with this path is charged, or passes: it cannot be refused without spending quota. */
function needsNoBudget(plainPath: PathReading | undefined, { unmatched }: RequestRules): boolean {
  return plainPath?.kind === "route" || (plainPath?.kind === "unmatched" && unmatched !== "reject");
}

/** Returns the reply to a request at the path of the caller's own quota that asks for something else; null if it does not. */
function findQuotaPathRefusal(
  { head, parsed: { message } }: PendingRequest,
  { cors }: RequestRules,
): LocalReply | null {
  if (message.problem !== null) return message.problem;
  if (isRead(head.method)) return null;
  return cors?.isPreflight(head, message) ? quotaPreflight : localReplies.methodNotAllowed;
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function findAuthRefusal({ auth, head: { rawHeaders } }: PendingRequest): LocalReply | null {
  switch (auth) {
    case "accepted":
    case "skipped":
      return null;
    case "missing":
      return localReplies.noToken;
    case "invalid":
      return readBearer(rawHeaders).kind === "malformed" ? localReplies.malformedToken : localReplies.invalidToken;
    case "expired":
      return localReplies.expiredToken;
  }
}

/** What a caller that asks is told of one policy. docs/policies.md describes the members. */
function policyAnswer(quota: CallerQuota, nowMs: number): object {
  const { policy, state, limit, used, remaining, resetMs, method, route } = quota;
  const { name, cost, match } = policy;
  return {
    name,
    state,
    limit,
    used,
    remaining,
    resetSeconds: resetMs === null ? null : Math.max(0, Math.ceil((resetMs - nowMs) / 1000)),
    cost,
    rate: rateAnswer(policy.rate),
    key: policy.key.map(keyPartText),
    match: { paths: match.paths, methods: match.methods },
    method,
    route,
  };
}

function rateAnswer(rate: Rate): object {
  switch (rate.kind) {
    case "sliding":
      return { kind: "sliding", windowSeconds: rate.windowMs / 1000 };
    case "calendar":
      return { kind: "calendar", per: rate.per, timezone: rate.timezone };
    case "concurrency":
      return { kind: "concurrency" };
  }
}
