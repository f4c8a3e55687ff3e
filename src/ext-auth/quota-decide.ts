// Decides about questions for a quota: all that come in one call together, so that either all are charged or none. No
// token is required and nothing but a limit refuses.
import { hash } from "node:crypto";
import { type Authentication, type Identity, readBearer, type TokenVerifier } from "../core/authentication.ts";
import type { HeaderList } from "../core/headers.ts";
import type { QuotaLimiter, QuotaRequest } from "../core/limiter.ts";
import { localReplies } from "../core/local-reply.ts";
import { type Awaitable, type Decision, isMoreUrgent } from "../core/policy.ts";
import {
  type DemandReader,
  findQuotaRefusal,
  parseRequest,
  type RequestHead,
  type RequestRules,
  readOrigin,
  type Verdict,
} from "../core/request-head.ts";
import type { Rule } from "../core/rules.ts";
import type { BlockRules } from "../core/rules-in-force.ts";

/** The head of a call: that of its first question, which the log shows. */
export interface QuotaHead extends RequestHead {
  readonly questions: readonly AskedQuestion[];
}

export interface AskedQuestion extends QuestionTerms {
  readonly head: RequestHead;
}

export interface QuotaVerdict extends Verdict {
  /** One for each question, in their order. */
  readonly decisions: readonly Decision[];
}

interface QuotaParts {
  readonly rules: RequestRules;
  readonly runtimeRules: BlockRules;
  readonly limiter: QuotaLimiter;
  readonly authenticator: TokenVerifier;
  readonly demandOf: DemandReader;
  /** Read again if the check of a token was awaited; a limiter that answers later reads the clock itself. */
  readonly nowMs: () => number;
}

export function createDecideQuota(parts: QuotaParts): (head: QuotaHead, nowMs: number) => Awaitable<QuotaVerdict> {
  return ({ questions }, nowMs) => {
    const requests = questions.map((question) => requestOf(question, parts));
    return areReady(requests)
      ? decide(requests, parts, nowMs)
      : Promise.all(requests).then((ready) => decide(ready, parts, parts.nowMs()));
  };
}

function areReady(requests: readonly Awaitable<QuotaRequest>[]): requests is readonly QuotaRequest[] {
  return !requests.some((request) => request instanceof Promise);
}

function decide(
  requests: readonly QuotaRequest[],
  { limiter, runtimeRules }: QuotaParts,
  nowMs: number,
): Awaitable<QuotaVerdict> {
  const [first] = requests;
  if (first === undefined) throw new Error("a call has at least one question");
  if (!runtimeRules.isEmpty) {
    const blocks = requests.map((request) => blockOf(request, runtimeRules));
    if (blocks.some((block) => block !== null)) return refuseBlocked(requests, blocks, limiter, nowMs);
  }
  const decisions = limiter.askAll(requests, nowMs);
  return decisions instanceof Promise
    ? decisions.then((later) => verdictOf(first, later))
    : verdictOf(first, decisions);
}

function verdictOf({ parsed }: QuotaRequest, decisions: readonly Decision[]): QuotaVerdict {
  const decision = decisions.reduce((shown, each) => (isMoreUrgent(each, shown) ? each : shown));
  const localReply = findQuotaRefusal(decision);
  return { parsed, decision, auth: "skipped", identity: null, localReply, decisions };
}

function blockOf({ parsed, identity }: QuotaRequest, runtimeRules: QuotaParts["runtimeRules"]): Rule | null {
  const ofClient = runtimeRules.blockOfClient(parsed.counterKey);
  return ofClient ?? (identity === null ? null : runtimeRules.blockOfIdentity(identity));
}

/** Charges nothing. Whoever asks can only be told that a limit is reached: so is that of each request that is blocked. */
function refuseBlocked(
  requests: readonly QuotaRequest[],
  blocks: readonly (Rule | null)[],
  limiter: QuotaLimiter,
  nowMs: number,
): QuotaVerdict {
  const decisions = requests.map(({ parsed }, i): Decision => {
    const quota = limiter.show(parsed, nowMs, true);
    return blocks[i] === null ? quota : { ...quota, outcome: "throttled" };
  });
  const index = blocks.findIndex((block) => block !== null);
  const [blockedBy, parsed, decision] = [blocks[index], requests[index]?.parsed, decisions[index]];
  if (!blockedBy || parsed === undefined || decision === undefined) throw new Error("one of the requests is blocked");
  const localReply = localReplies.blocked;
  return { parsed, decision, auth: "skipped", identity: null, localReply, blockedBy, decisions };
}

/** A token that is not good is left out, or a client could invent one for each request: the client is charged instead. */
function requestOf(question: AskedQuestion, { authenticator, demandOf, rules }: QuotaParts): Awaitable<QuotaRequest> {
  const { head, policy, hits } = question;
  const parsed = parseRequest(readOrigin(head, rules), rules);
  const credential = readBearer(head.rawHeaders);
  const withIdentity = (authentication: Authentication): QuotaRequest => {
    const isGood = authentication === "accepted" || authentication === "skipped" || typeof authentication !== "string";
    const verified = typeof authentication === "string" ? null : authentication;
    const token = isGood && credential.kind === "token" ? credential.token : null;
    return {
      parsed,
      head: isGood ? head : withoutToken(head),
      identity: withStated(question, verified, token),
      isVerified: verified !== null,
      policy,
      hits,
    };
  };
  const authentication = authenticator.authenticate(credential, demandOf(parsed, head).mode);
  return authentication instanceof Promise ? authentication.then(withIdentity) : withIdentity(authentication);
}

function withoutToken(head: RequestHead): RequestHead {
  const isToken = (i: number): boolean => head.rawHeaders[i - (i % 2)]?.toLowerCase() === "authorization";
  return { ...head, rawHeaders: head.rawHeaders.filter((_, i) => !isToken(i)) };
}

/** Adds what the ingress tells of the client. `token`: one that passes, verified or not. */
function withStated(
  { subject, claims }: AskedQuestion,
  verified: Identity | null,
  token: string | null,
): Identity | null {
  if (subject === null && claims.size === 0) return verified;
  const known = verified ?? {
    tokenDigest: token === null ? "" : hash("sha256", token, "hex"),
    tokenName: null,
    subject: null,
    scopes: [],
    endsMs: null,
    claims: new Map<string, string>(),
  };
  return { ...known, subject: subject ?? known.subject, claims: new Map([...known.claims, ...claims]) };
}

/**
 * What an ingress asks about a quota alone: which request of which client, by which policy, and how often it counts. The
 * ingress names everything itself, and is trusted with it.
 */
interface QuestionTerms {
  /** Null: not told. */
  readonly subject: string | null;
  readonly claims: ReadonlyMap<string, string>;
  /** The only policy that is asked; null: all that apply. */
  readonly policy: string | null;
  /** At least 1. */
  readonly hits: number;
}

export interface QuotaQuestion extends QuestionTerms {
  /** The client's address as the ingress sees it, with a port or without. It is the peer of the request. */
  readonly peerAddress: string;
  readonly method: string;
  readonly target: string;
  /** The token, and what else keys of policies are made of. */
  readonly rawHeaders: HeaderList;
}
