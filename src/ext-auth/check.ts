// A decision for an ingress that carries the request itself: the same pipeline, counters and fields as for a request
// that goes through the gateway. Knows nothing of what carries the call (HTTP, gRPC): that finds out whether the caller
// may ask, what it asks about, and how to write the answer.
import { type Peer, parseForwardedAddress } from "../core/client-address.ts";
import { type ExchangeRecord, newRecord } from "../core/exchange-record.ts";
import type { ResponseFields } from "../core/fields.ts";
import { formatIpAddress } from "../core/ip-address.ts";
import { errorBody, type LocalReply, localReplies } from "../core/local-reply.ts";
import type { RequestHead, Verdict } from "../core/request-head.ts";
import type { DenyStatus } from "../core/settings.ts";
import { type CheckProblem, checkProblems } from "./check-problems.ts";

/** One request of a client, as the ingress has it. It counts as one request, however it is decided. */
export interface Check {
  /** Whose connection the ingress has: an address, with a port or without. It is the peer of the request. */
  readonly peerAddress: string;
  readonly method: string;
  /** As the client sent it: path and query, or an absolute form. */
  readonly target: string;
  /**
   * Names and values alternating, of the client's request: one Host, X-Forwarded-For as it came from the peer,
   * Authorization. Whatever else the ingress leaves in is checked as it would be by the proxy.
   */
  readonly rawHeaders: readonly string[];
  /** False where the ingress has no way to pass Authorization on: nobody asks for a token then. */
  readonly canShowToken: boolean;
  /** True where the ingress can only be told that the limit is reached: nothing else refuses then. */
  readonly quotaOnly?: boolean;
}

export interface CheckAnswer {
  /** 200, or 4xx: never 5xx (save after a bug), which to an ingress means that nobody has decided. */
  readonly status: number;
  /**
   * Names and values alternating: Date, the rate limit fields and X-Headgate-Status, and on a refusal all others of the
   * proxy's own answer, Content-Length included.
   */
  readonly fields: readonly string[];
  /** Of a refusal; empty if the request may pass. */
  readonly body: string;
  /** Null if the call itself was refused: it says nothing that could be decided, and has cost nobody anything. */
  readonly verdict: Verdict | null;
}

export interface CheckerOptions {
  readonly decide: (facts: RequestHead) => Verdict | Promise<Verdict>;
  /** The same without a check of the token. */
  readonly decideWithoutToken: (facts: RequestHead) => Verdict | Promise<Verdict>;
  /** Of an address in its canonical spelling. */
  readonly readPeer: (address: string) => Peer;
  readonly requestId: (facts: RequestHead) => string;
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly denyStatus: DenyStatus;
  /** Once for each call that was decided. */
  readonly onEnd: (exchange: ExchangeRecord, target: string) => void;
}

/** Answers at once as long as the counters and the authenticator do. Throws and rejects for bugs only. */
export type Checker = (call: Check) => CheckAnswer | Promise<CheckAnswer>;

export function createChecker(options: CheckerOptions): Checker {
  const conclude = (facts: RequestHead, verdict: Verdict): CheckAnswer => {
    const { problem } = verdict;
    const exchange = newRecord(facts, verdict, options.requestId(facts), "ext-auth");
    const endedMs = options.nowMs();
    const status = problem?.status ?? 200;
    options.onEnd(
      { ...exchange, respondedMs: endedMs, endedMs, status, problem: problem?.reason ?? null, complete: true },
      facts.target,
    );
    return problem === null ? admission(options, verdict) : denial(options, verdict, problem);
  };
  return (call) => {
    const address = parseForwardedAddress(call.peerAddress);
    if (address === undefined) return refuseCall(checkProblems.noClient, options.denyStatus);
    const { method, target, rawHeaders } = call;
    const peer = options.readPeer(formatIpAddress(address));
    const facts: RequestHead = { peer, rawHeaders, method, target, httpVersion: "1.1", nowMs: options.nowMs() };
    const verdict = call.canShowToken ? options.decide(facts) : options.decideWithoutToken(facts);
    const end = (decided: Verdict) => conclude(facts, call.quotaOnly === true ? quotaAlone(decided) : decided);
    return verdict instanceof Promise ? verdict.then(end) : end(verdict);
  };
}

function quotaAlone(verdict: Verdict): Verdict {
  return verdict.decision.outcome === "throttled" ? verdict : { ...verdict, problem: null };
}

/** The answer to a call that cannot be decided. No client is known, so there is no quota to tell of. */
export function refuseCall(problem: CheckProblem, denyStatus: DenyStatus): CheckAnswer {
  const body = errorBody(problem);
  const fields = ["X-Headgate-Status", `${problem.status}`, "Cache-Control", "no-store"];
  fields.push("Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`);
  return { status: statusOf(problem, denyStatus), fields, body, verdict: null };
}

/** What is left to say after a bug. It has no X-Headgate-Status: nobody has decided. */
export function undecided(): CheckAnswer {
  const body = errorBody(localReplies.internal);
  const fields = ["Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`];
  return { status: localReplies.internal.status, fields, body, verdict: null };
}

function admission({ fields }: CheckerOptions, verdict: Verdict): CheckAnswer {
  const always = fields.always(verdict.decision);
  always.push("X-Headgate-Status", "200", "Cache-Control", "no-store", "Content-Length", "0");
  return { status: 200, fields: always, body: "", verdict };
}

function denial(options: CheckerOptions, verdict: Verdict, problem: LocalReply): CheckAnswer {
  const { fields, body } = options.fields.problem(problem, verdict.decision);
  fields.push("X-Headgate-Status", `${problem.status}`);
  return { status: statusOf(problem, options.denyStatus), fields, body, verdict };
}

/**
 * Every ingress passes a 401 on, since a client has to answer it. A 501 would read as a failure of the gateway, which some
 * are told to let through.
 */
function statusOf({ status }: Pick<LocalReply, "status">, denyStatus: DenyStatus): number {
  if (status === 401) return 401;
  return denyStatus === 403 || status >= 500 ? 403 : status;
}
