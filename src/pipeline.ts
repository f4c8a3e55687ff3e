// Decides about a request, from top to bottom; each step names the reason for its place. The same for all transports.
import {
  type Authentication,
  type Authenticator,
  type AuthOutcome,
  type Identity,
  readBearer,
} from "./core/authentication.ts";
import type { CallerQuota, Limiter, RefusalBudget } from "./core/limiter.ts";
import { jsonReply, type LocalReply, localReplies, quotaPreflight } from "./core/local-reply.ts";
import { type Awaitable, type Decision, keyPartText, type Rate } from "./core/policy.ts";
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
import type { RulesInForce } from "./core/rules-in-force.ts";

export interface PipelineParts {
  readonly rules: RequestRules;
  /** That are set while the gateway runs. */
  readonly runtimeRules: Pick<RulesInForce, "isEmpty" | "blockOfClient" | "blockOfIdentity">;
  readonly limiter: Limiter;
  readonly authenticator: Pick<Authenticator, "authenticate" | "isKnown">;
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

class Pipeline {
  readonly #parts: PipelineParts;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
  }

  decide(head: RequestHead, nowMs: number): Awaitable<Verdict> {
    const { rules, runtimeRules, limiter, refusals } = this.#parts;
    const known = head.memory?.parsedUnder(rules);
    if (known) {
      const block = runtimeRules.isEmpty ? null : runtimeRules.blockOfClient(known.counterKey);
      return block === null
        ? this.#charge(head, known, nowMs)
        : this.#refuseUncharged(known, localReplies.blocked, nowMs, block);
    }
    // The client, and a path in a usual spelling, are read first: everything else needs them, and they cost little.
    const origin = readOrigin(head, rules);
    // Before what clients behind the load balancer's address could have it refused for.
    if (rules.readiness !== null && origin.target?.path === rules.readiness.path) {
      return this.#tellReadiness(head, origin, rules.readiness, nowMs);
    }
    // Before the quota and the path, which a blocked client must not make the gateway read.
    const block = runtimeRules.isEmpty ? null : runtimeRules.blockOfClient(origin.counterKey);
    if (block !== null) return this.#refuseUncharged(parseCheaply(origin, rules), localReplies.blocked, nowMs, block);
    const { unparsable } = origin.message;
    if (unparsable !== null) return this.#refuseUncharged(parseWithoutPath(origin), unparsable, nowMs);
    // Before the routes, one of which it may be under.
    if (rules.quota !== null && origin.target?.path === rules.quota.path) {
      return this.#answerQuota(head, origin, rules.quota, nowMs);
    }
    if (refusals === null || needsNoBudget(origin.plainPath, rules)) return this.#read(head, origin, nowMs);

    // The request may be refused without being charged. If the client's budget for such refusals is used up, or its
    // quota, the request is refused now, because reading the path costs more. Requests plainly under a route pass above.
    const isSpent = refusals.isSpent(origin.client, nowMs);
    // The budget also pays for the path of a preflight, which is answered whatever is left of the quota.
    const isAsking = !isSpent && (rules.cors?.answerPreflight(head, origin.message) ?? null) !== null;
    if (isAsking) refusals.spend(origin.client, nowMs);
    if (!isSpent && (isAsking || origin.plainPath !== undefined || rules.unmatched !== "reject")) {
      return this.#read(head, origin, nowMs);
    }
    const quota = limiter.peek(origin.client, origin.counterKey, nowMs);
    return this.#refuseUnread(origin, quota, isSpent, nowMs) ?? this.#read(head, origin, nowMs);
  }

  /** Spends nothing and asks for nothing: its answers are prepared, so they cost no more than a refusal. */
  #tellReadiness({ method }: RequestHead, origin: RequestOrigin, { reply }: ReadinessPath, atMs: number): Verdict {
    const parsed = parseWithoutPath(origin);
    const { problem } = parsed.message;
    if (problem !== null) return this.#refuseUncharged(parsed, problem, atMs);
    const told = isRead(method) ? reply.current : localReplies.methodNotAllowed;
    return this.#observed(parsed, "skipped", null, told, atMs);
  }

  /** Tells a caller what it has left. Spends no quota: the budget for refusals pays, for wrong tokens too. */
  #answerQuota(head: RequestHead, origin: RequestOrigin, quotaPath: QuotaPath, atMs: number): Awaitable<Verdict> {
    const { rules, authenticator } = this.#parts;
    const parsed = parseWithoutPath(origin);
    const isPaid = this.#spendRefusal(parsed.client, atMs);
    const refusal = isPaid ? findQuotaPathRefusal(head, parsed, rules) : localReplies.tooManyRefusals;
    if (refusal !== null) return this.#observed(parsed, "skipped", null, refusal, atMs);
    const auth = authenticator.authenticate(readBearer(head.rawHeaders), quotaPath);
    return auth instanceof Promise
      ? auth.then((later) => this.#tellQuota(head, parsed, quotaPath, later, this.#parts.nowMs()))
      : this.#tellQuota(head, parsed, quotaPath, auth, atMs);
  }

  #tellQuota(
    head: RequestHead,
    parsed: ParsedRequest,
    { routes, isShared }: QuotaPath,
    authentication: Authentication,
    atMs: number,
  ): Verdict {
    const { limiter, runtimeRules } = this.#parts;
    const identity = typeof authentication === "string" ? null : authentication;
    const auth = typeof authentication === "string" ? authentication : "accepted";
    // Without a token, only what is counted for the address is told, which every response shows as well.
    const refusal = auth === "missing" ? null : findAuthRefusal(auth, head);
    if (refusal !== null) return this.#observed(parsed, auth, identity, refusal, atMs);
    const blockedBy = identity === null || runtimeRules.isEmpty ? null : runtimeRules.blockOfIdentity(identity);
    if (blockedBy !== null) return this.#observed(parsed, auth, identity, localReplies.blocked, atMs, blockedBy);
    const quotas = limiter.quotasOf(parsed, head, identity, routes, atMs);
    const reply = quotaReply(quotas, { isVerified: identity !== null, isShared }, atMs);
    return this.#observed(parsed, auth, identity, reply, atMs);
  }

  /** Replies to a request that is not charged, and shows the quota of its client. */
  #observed(
    parsed: ParsedRequest,
    auth: AuthOutcome,
    identity: Identity | null,
    localReply: LocalReply,
    atMs: number,
    blockedBy?: Rule,
  ): Verdict {
    const decision = this.#parts.limiter.observe(parsed.client, parsed.counterKey, atMs);
    return { parsed, decision, auth, identity, localReply, ...(blockedBy === undefined ? {} : { blockedBy }) };
  }

  /** Spends no quota: the budget for refusals pays. */
  #refuseUncharged(parsed: ParsedRequest, reply: LocalReply, atMs: number, blockedBy?: Rule): Verdict {
    return this.#observed(parsed, "skipped", null, this.#payRefusal(parsed.client, reply, atMs), atMs, blockedBy);
  }

  /** Returns the reply to a client that is refused without being charged. */
  #payRefusal(client: string, localReply: LocalReply, atMs: number): LocalReply {
    return this.#spendRefusal(client, atMs) ? localReply : localReplies.tooManyRefusals;
  }

  /** Returns false if the client's budget for refusals is used up. */
  #spendRefusal(client: string, atMs: number): boolean {
    const { refusals } = this.#parts;
    if (refusals?.isSpent(client, atMs)) return false;
    refusals?.spend(client, atMs);
    return true;
  }

  /** Returns the refusal of a request whose path is not read; null if the path has to be read. */
  #refuseUnread(origin: RequestOrigin, quota: Decision, isSpent: boolean, atMs: number): Verdict | null {
    // A request with a verified token does not pay for those of others behind its address.
    if (!isSpent && (quota.remaining > 0 || quota.policy.who === "others")) return null;
    this.#parts.limiter.observe(origin.client, origin.counterKey, atMs);
    const parsed = parseWithoutPath(origin);
    const decision: Decision = isSpent ? quota : { ...quota, outcome: "throttled" };
    const localReply = isSpent ? localReplies.tooManyRefusals : localReplies.throttled;
    return { parsed, decision, auth: "skipped", identity: null, localReply };
  }

  /** `atMs`: the clock, read after whatever was waited for. */
  #read(head: RequestHead, origin: RequestOrigin, atMs: number): Awaitable<Verdict> {
    const { rules } = this.#parts;
    const parsed = parseRequest(origin, rules);
    // Other paths have to pass the budget for refusals each time.
    if (origin.plainPath?.kind === "route") head.memory?.remember(parsed, rules);
    return this.#charge(head, parsed, atMs);
  }

  #charge(head: RequestHead, parsed: ParsedRequest, atMs: number): Awaitable<Verdict> {
    const { limiter, rules } = this.#parts;
    // Before the quota: a preflight over the limit would keep the page from reading the 429 of its call.
    const isOpen = parsed.path.kind === "route" && parsed.upstreamTarget !== null && parsed.message.problem === null;
    const preflight = isOpen ? rules.cors?.answerPreflight(head, parsed.message) : null;
    if (preflight) {
      return this.#observed(parsed, "skipped", null, this.#payRefusal(parsed.client, preflight, atMs), atMs);
    }
    // The quota comes before everything that can refuse: a bad token, a bad path and a malformed message are each
    // charged, or guessing tokens would be free. A request outside of all routes is not charged.
    const decision =
      parsed.route === null
        ? limiter.observe(parsed.client, parsed.counterKey, atMs)
        : limiter.decide(parsed, head, atMs);
    return decision instanceof Promise
      ? this.#chargedLater(head, parsed, decision)
      : this.#charged(head, parsed, decision, atMs);
  }

  #charged(head: RequestHead, parsed: ParsedRequest, decision: Decision, atMs: number): Awaitable<Verdict> {
    const { rules, limiter, refusals } = this.#parts;
    // Throttled, not to be decided, malformed, ambiguous or outside of all routes: refused without checking the token.
    const refusal = findRefusal(parsed, decision, rules);
    if (refusal !== null) {
      // Nobody has verified it, so it is a request of the others.
      if (limiter.limitsOthers && parsed.route !== null && findQuotaRefusal(decision) === null) {
        return this.#refuseOther(head, parsed, decision, "skipped", refusal, atMs);
      }
      // Nothing else bounds the refusals while the store is away.
      if (decision.outcome !== "admitted" && decision.outcome !== "throttled") {
        refusals?.spend(parsed.client, atMs);
      }
      return { parsed, decision, auth: "skipped", identity: null, localReply: refusal };
    }
    // Outside of all routes nothing is asked: no limit, no token. Only what the gateway forwards has a bound on its body.
    if (parsed.path.kind === "unmatched") {
      const localReply = rules.unmatched === "proxy" ? findBodyRefusal(parsed, rules) : null;
      return { parsed, decision, auth: "skipped", identity: null, localReply };
    }

    // The token comes after them, because its check costs the most.
    try {
      return this.#authenticate(head, parsed, decision, atMs);
    } catch (error) {
      decision.held?.end(0);
      throw error;
    }
  }

  #authenticate(head: RequestHead, parsed: ParsedRequest, decision: Decision, atMs: number): Awaitable<Verdict> {
    const { rules, limiter, authenticator, demandOf, refusals } = this.#parts;
    // A preflight has no token.
    const { cors } = rules;
    const isPreflight = cors !== null && !cors.answersPreflights && cors.isPreflight(head, parsed.message);
    if (isPreflight) return this.#authenticated(head, parsed, decision, "skipped", noScopes, atMs);
    const credential = readBearer(head.rawHeaders);
    const demand = demandOf(parsed, head);
    // A client that has used up what the others get, and its budget for refusals, cannot make the gateway verify more.
    if (limiter.limitsOthers && refusals?.isSpent(parsed.client, atMs)) {
      const usedUp = authenticator.isKnown(credential, demand) ? null : limiter.findUsedUp(parsed, head, atMs);
      if (usedUp !== null) {
        const shown = { ...usedUp, held: decision.held };
        const localReply = localReplies.tooManyRefusals;
        return { parsed, decision: shown, auth: "skipped", identity: null, localReply };
      }
    }
    const auth = authenticator.authenticate(credential, demand);
    return auth instanceof Promise
      ? this.#authenticatedLater(head, parsed, decision, auth, demand.scopes)
      : this.#authenticated(head, parsed, decision, auth, demand.scopes, atMs);
  }

  #authenticated(
    head: RequestHead,
    parsed: ParsedRequest,
    decision: Decision,
    authentication: Authentication,
    scopes: readonly string[],
    atMs: number,
  ): Awaitable<Verdict> {
    const { limiter } = this.#parts;
    const identity = typeof authentication === "string" ? null : authentication;
    const auth = typeof authentication === "string" ? authentication : "accepted";
    const refusal = findAuthRefusal(auth, head);
    if (refusal !== null) {
      return limiter.limitsOthers
        ? this.#refuseOther(head, parsed, decision, auth, refusal, atMs)
        : { parsed, decision, auth, identity, localReply: refusal };
    }

    const { runtimeRules } = this.#parts;
    const blockedBy = identity === null || runtimeRules.isEmpty ? null : runtimeRules.blockOfIdentity(identity);
    if (blockedBy !== null) {
      // What the step before has charged pays; if there was nothing, nothing else does.
      const isPaid = decision.outcome === "admitted";
      const localReply = isPaid ? localReplies.blocked : this.#payRefusal(parsed.client, localReplies.blocked, atMs);
      return { parsed, decision, auth, identity, localReply, blockedBy };
    }

    // The limits on an identity come after its token is verified, or a guessed token could spend another one's quota. They
    // come before its scopes, or asking for what it may not have would be free.
    const hasScopes = scopes.every((scope) => identity?.scopes.includes(scope));
    const whole = limiter.decideIdentified(parsed, head, identity, decision, atMs);
    return whole instanceof Promise
      ? this.#admittedLater(parsed, auth, identity, hasScopes, decision, whole)
      : this.#admitted(parsed, auth, identity, hasScopes, whole);
  }

  /** A function of its own: a closure in the one above would allocate for each request, also where nothing is waited for. */
  #admittedLater(
    parsed: ParsedRequest,
    auth: AuthOutcome,
    identity: Identity | null,
    hasScopes: boolean,
    first: Decision,
    whole: Promise<Decision>,
  ): Promise<Verdict> {
    return this.#whenDecided(first, whole, (known) => this.#admitted(parsed, auth, identity, hasScopes, known));
  }

  #admitted(
    parsed: ParsedRequest,
    auth: AuthOutcome,
    identity: Identity | null,
    hasScopes: boolean,
    decision: Decision,
  ): Verdict {
    // The announced size comes after the token, so that a client without a token does not learn the limit.
    const localReply =
      findQuotaRefusal(decision) ??
      (hasScopes ? findBodyRefusal(parsed, this.#parts.rules) : localReplies.insufficientScope);
    return { parsed, decision, auth, identity, localReply };
  }

  /** Refuses a request without a verified token: the limits on such requests come first, or guessing tokens would be free. */
  #refuseOther(
    head: RequestHead,
    parsed: ParsedRequest,
    decision: Decision,
    auth: AuthOutcome,
    refusal: LocalReply,
    atMs: number,
  ): Awaitable<Verdict> {
    const { limiter, refusals } = this.#parts;
    const refuse = (known: Decision): Verdict => {
      const quotaRefusal = findQuotaRefusal(known);
      // A path or a token was read in vain, and no quota pays for it.
      const isUnpaid = quotaRefusal !== null || known.outcome !== "admitted";
      if (isUnpaid && auth !== "missing") refusals?.spend(parsed.client, atMs);
      return { parsed, decision: known, auth, identity: null, localReply: quotaRefusal ?? refusal };
    };
    const whole = limiter.decideRefused(parsed, head, decision, atMs);
    return whole instanceof Promise ? this.#whenDecided(decision, whole, refuse) : refuse(whole);
  }

  async #chargedLater(head: RequestHead, parsed: ParsedRequest, decision: Promise<Decision>): Promise<Verdict> {
    return this.#charged(head, parsed, await decision, this.#parts.nowMs());
  }

  async #authenticatedLater(
    head: RequestHead,
    parsed: ParsedRequest,
    decision: Decision,
    authentication: Promise<Authentication>,
    scopes: readonly string[],
  ): Promise<Verdict> {
    try {
      // Not awaited: `#whenDecided` ends by itself what is held, and nothing may be ended twice.
      return this.#authenticated(head, parsed, decision, await authentication, scopes, this.#parts.nowMs());
    } catch (error) {
      decision.held?.end(0);
      throw error;
    }
  }

  /** `first`: the decision of the step before, which may hold something. */
  async #whenDecided(
    first: Decision,
    whole: Promise<Decision>,
    conclude: (known: Decision) => Verdict,
  ): Promise<Verdict> {
    try {
      return conclude(await whole);
    } catch (error) {
      first.held?.end(0);
      throw error;
    }
  }
}

const noScopes: readonly string[] = [];

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
  head: RequestHead,
  { message }: ParsedRequest,
  { cors }: RequestRules,
): LocalReply | null {
  if (message.problem !== null) return message.problem;
  if (isRead(head.method)) return null;
  return cors?.isPreflight(head, message) ? quotaPreflight : localReplies.methodNotAllowed;
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function findAuthRefusal(auth: AuthOutcome, { rawHeaders }: RequestHead): LocalReply | null {
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

/**
 * The answer to a caller that asks what it has left, as JSON. docs/policies.md describes its members. `isVerified`:
 * whether the token of the caller was verified. `isShared`: whether other gateways share the counters.
 */
function quotaReply(
  quotas: readonly CallerQuota[],
  { isVerified, isShared }: { readonly isVerified: boolean; readonly isShared: boolean },
  nowMs: number,
): LocalReply {
  return jsonReply({ isVerified, isShared, policies: quotas.map((quota) => policyAnswer(quota, nowMs)) });
}

function policyAnswer({ policy, state, method, route }: CallerQuota, nowMs: number): object {
  const { name, rate, key, match, cost } = policy;
  const isCounted = state !== null && !state.isExempt;
  return {
    name,
    state: stateWord(state, cost),
    limit: state?.limit ?? policy.limit,
    used: isCounted ? state.used : null,
    remaining: isCounted ? state.remaining : null,
    resetSeconds:
      isCounted && state.used > 0 && state.resetMs !== null
        ? Math.max(0, Math.ceil((state.resetMs - nowMs) / 1000))
        : null,
    cost,
    rate: rateAnswer(rate),
    key: key.map(keyPartText),
    match: { paths: match.paths, methods: match.methods },
    method,
    route,
  };
}

function stateWord(state: CallerQuota["state"], cost: number): "unknown" | "exempt" | "exhausted" | "open" {
  if (state === null) return "unknown";
  if (state.isExempt) return "exempt";
  return state.remaining < cost ? "exhausted" : "open";
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
