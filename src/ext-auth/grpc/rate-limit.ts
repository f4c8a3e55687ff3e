// Envoy's rate limit service: the quota alone, of the clients that Envoy names. Where the limit is reached the client gets the
// gateway's 429 with its fields and body; where it is not, the fields. A limit that cannot be checked, of a gateway that
// refuses then, is over the limit as well: Envoy lets a request pass if the call fails, unless it is told otherwise.
import { listOf } from "../../core/headers.ts";
import type { Decision } from "../../core/policy.ts";
import { findQuotaRefusal } from "../../core/request-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { CheckAnswer, CheckCaller, Checks } from "../check.ts";
import type { QuotaQuestion, QuotaVerdict } from "../quota-decide.ts";
import { type GrpcCall, type GrpcStatus, grpcCodes, statuses } from "./call.ts";
import {
  clientFields,
  type Descriptor,
  type DescriptorStatus,
  type RateLimitRequest,
  rateLimitResponse,
  readRateLimitRequest,
  without,
} from "./envoy-messages.ts";

/** Envoy sends the length itself; to the Date and the request id that it has already, others would be added. */
const notToAdd: ReadonlySet<string> = new Set(["content-length", "date", "x-request-id"]);

export function rateLimit(checks: Checks, nowMs: () => number): (message: Buffer, call: GrpcCall) => void {
  return (message, call) => {
    const request = readRateLimitRequest(message);
    if (request === undefined) return call.fail(statuses.malformed);
    const questions = readQuestions(request, checks.policyNames);
    if ("code" in questions) return call.fail(questions);
    if (!checks.beginQuota(questions, new RateLimitCaller(call, nowMs))) call.fail(statuses.notAnAddress);
  };
}

class RateLimitCaller implements CheckCaller {
  readonly takesUnavailable = true;
  readonly #call: GrpcCall;
  readonly #nowMs: () => number;

  constructor(call: GrpcCall, nowMs: () => number) {
    this.#call = call;
    this.#nowMs = nowMs;
  }

  get isGone(): boolean {
    return this.#call.isOver;
  }

  answer({ lines, body }: CheckAnswer, { verdict, problem }: Exchange): void {
    if (problem === "internal") {
      this.abort();
      return;
    }
    const headers = listOf(lines);
    const isOverLimit = isRefused(verdict.decision);
    // Envoy makes it a 429, which has a Retry-After. The end of an outage is not known.
    const shown = problem === "store_unavailable" ? [...headers, "Retry-After", "1"] : headers;
    const { decisions } = verdict as QuotaVerdict;
    const nowMs = this.#nowMs();
    this.#call.reply(
      rateLimitResponse({
        statuses: decisions.map((decision) => statusOf(decision, nowMs)),
        fields: without(isOverLimit ? shown : clientFields(headers), notToAdd),
        body,
      }),
    );
  }

  /** There is no decision: Envoy applies its own setting for failures. */
  abort(): void {
    this.#call.fail(statuses.internal);
  }
}

function isRefused(decision: Decision): boolean {
  return findQuotaRefusal(decision) !== null;
}

function statusOf(decision: Decision, nowMs: number): DescriptorStatus {
  const { policy, limit, remaining, resetMs } = decision;
  return {
    isOverLimit: isRefused(decision),
    limit,
    rate: policy.rate,
    policyName: policy.name,
    remaining,
    untilResetMs: Math.max(0, resetMs - nowMs),
  };
}

// Reads from a RateLimitRequest which requests of which clients are asked about: one for each descriptor. Anything else
// (another domain, an unknown entry or policy, a limit of the caller's own) is refused with a message; nothing is
// admitted or charged by guessing.

const domain = "headgate";
const maxDescriptors = 32;
const maxEntries = 32;

/** `policyNames`: those that a descriptor may name. */
export function readQuestions(
  { domain: asked, descriptors, hitsAddend }: RateLimitRequest,
  policyNames: readonly string[],
): readonly QuotaQuestion[] | GrpcStatus {
  if (asked !== domain) return invalid(`the domain has to be "${domain}"`);
  if (descriptors.length === 0 || descriptors.length > maxDescriptors)
    return invalid(`1 to ${maxDescriptors} descriptors are expected`);
  const questions: QuotaQuestion[] = [];
  for (const descriptor of descriptors) {
    // A caller that sets nothing sends 0.
    const question = readQuestion(descriptor, Math.max(1, hitsAddend), policyNames);
    if ("code" in question) return question;
    questions.push(question);
  }
  return questions;
}

function readQuestion(
  { entries, hits, hasOverride }: Descriptor,
  hitsAddend: number,
  policyNames: readonly string[],
): QuotaQuestion | GrpcStatus {
  if (hits === 0) return unsupported("a descriptor counts as one hit or more: its hits_addend cannot be 0");
  if (hasOverride) return unsupported("a descriptor cannot carry its own limit");
  if (entries.length > maxEntries) return invalid(`at most ${maxEntries} entries are expected in a descriptor`);
  const values = new Map<string, string>();
  for (const { key, value } of entries) {
    const name = nameOf(key);
    if (name === undefined || values.has(name)) {
      return invalid(`an entry "${key.slice(0, 64)}" is unknown or given twice: ${expected}`);
    }
    values.set(name, value);
  }
  const peerAddress = values.get("remote_address");
  const target = values.get("path");
  if (peerAddress === undefined || target === undefined) return invalid(`an entry is missing: ${expected}`);
  const policy = values.get("policy") ?? null;
  if (policy !== null && !policyNames.includes(policy)) {
    return invalid(`the policy "${policy.slice(0, 64)}" is none that is asked here: ${policyNames.join(", ")}`);
  }
  return {
    peerAddress,
    target,
    method: values.get("method") ?? "GET",
    rawHeaders: headersOf(values),
    subject: values.get("subject") ?? null,
    claims: new Map(
      [...values].flatMap(([name, value]) => (name.startsWith(claim) ? [[name.slice(claim.length), value]] : [])),
    ),
    policy,
    hits: hits ?? hitsAddend,
  };
}

const header = "header:";
const claim = "claim:";
const plain: ReadonlySet<string> = new Set(["remote_address", "path", "method", "policy", "token", "subject"]);
const expected =
  "a descriptor has remote_address, path and optionally method, policy, token, subject, claim:NAME and header:NAME";

/** What these headers say has its own entry, or is the gateway's to say. */
const notAsHeader = /^(?:authorization|proxy-authorization|forwarded|x-forwarded-.*|x-real-ip|x-request-id|host)$/;

/** Returns the name of an entry, with that of a header in lower case; undefined if it is unknown. */
function nameOf(key: string): string | undefined {
  if (plain.has(key) || /^claim:[!-~]{1,128}$/.test(key)) return key;
  const [, name] = /^header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128})$/.exec(key) ?? [];
  const lower = name?.toLowerCase();
  return lower === undefined || notAsHeader.test(lower) ? undefined : `${header}${lower}`;
}

function headersOf(values: ReadonlyMap<string, string>): string[] {
  const headers: string[] = [];
  for (const [name, value] of values) {
    if (name.startsWith(header)) headers.push(name.slice(header.length), value);
  }
  const token = values.get("token");
  // Envoy sends the header as it is, and others may send the token alone.
  if (token !== undefined) headers.push("Authorization", /^bearer /i.test(token) ? token : `Bearer ${token}`);
  return headers;
}

const invalid = (message: string): GrpcStatus => ({ code: grpcCodes.invalidArgument, message });
const unsupported = (message: string): GrpcStatus => ({ code: grpcCodes.unimplemented, message });
