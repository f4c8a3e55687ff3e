// The limiter of the configured policies, with counters in the memory of this process. A reload makes another one from
// it, which goes on with the counters of the policies that it continues.
import { randomBytes } from "node:crypto";
import { type Clock, systemClock } from "../core/clock.ts";
import type { Limiter, QuotaLimiter } from "../core/limiter.ts";
import type { Policy } from "../core/policy.ts";
import { needsIdentity } from "../core/policy-needs.ts";
import { isContinued } from "../core/restart-keys.ts";
import { createCounters } from "./create-counters.ts";
import { createKeyLimits } from "./key-limits.ts";
import { createKeyReader } from "./policy-key.ts";
import { createPolicyMatcher } from "./policy-match.ts";
import { holdsUntilEnd, type OutcomeCounts, PolicyState } from "./policy-state.ts";
import { type PolicySet, PolicySteps } from "./policy-steps.ts";
import { QuotaQuestions } from "./quota-questions.ts";
import { TokenDigests } from "./request-parts.ts";

/** Each has a default that suits a gateway without a base path, verified tokens and structured fields. */
export interface PolicyLimiterOptions {
  /** Its wall clock says when a period of the calendar is over. */
  readonly clock?: Clock;
  readonly basePath?: string;
  readonly tokensAreVerified?: boolean;
  /** `shadow`: no policy refuses anything. */
  readonly enforcement?: "on" | "shadow";
  /** Whether decisions list all enforcing policies that apply. */
  readonly listAll?: boolean;
  /** 16 random bytes for the keys. Default: those of `previous`, or new ones. */
  readonly secret?: Buffer;
  /** The limiter before a reload. Nothing of it changes until the new one is asked. */
  readonly previous?: PolicyLimiter | null;
}

export class PolicyLimiter extends PolicySteps {
  readonly #set: PolicySet;
  readonly #secret: Buffer;

  /** `policies`: 1 to 32. Throws a RangeError if the runtime does not know a time zone. */
  constructor(policies: readonly Policy[], options: PolicyLimiterOptions = {}) {
    const { previous = null } = options;
    const secret = options.secret ?? (previous === null ? randomBytes(16) : previous.#secret);
    const before = previous === null ? [] : previous.#set.states;
    const set = createSet(policies, { ...options, secret }, before);
    super(set, allPolicies);
    this.#set = set;
    this.#secret = secret;
  }

  /** The same for checks, which do not tell when an exchange ends: without the policies for which that matters. */
  forChecks(): Limiter {
    return this.#forChecks();
  }

  /** The same for questions about a quota alone. */
  forQuotas(): QuotaLimiter {
    return new QuotaQuestions(this.#set, this.#askedByChecks(), this.#forChecks());
  }

  #forChecks(): PolicySteps {
    return new PolicySteps(this.#set, this.#askedByChecks());
  }

  #askedByChecks(): number {
    return maskOf(this.#set.states, ({ policy }) => !holdsUntilEnd(policy));
  }
}

const allPolicies = -1;

function createSet(
  policies: readonly Policy[],
  options: PolicyLimiterOptions & { readonly secret: Buffer },
  before: readonly PolicyState[],
): PolicySet {
  const { basePath = "/", tokensAreVerified = false, listAll = false } = options;
  const tokens = new TokenDigests();
  return {
    states: policies.map((policy) => createState(policy, { ...options, tokens }, before)),
    tokens,
    match: createPolicyMatcher(policies, basePath),
    identified: maskOf(policies, (policy) => needsIdentity(policy, tokensAreVerified)),
    listAll,
  };
}

interface StateOptions extends PolicyLimiterOptions {
  readonly secret: Buffer;
  readonly tokens: TokenDigests;
}

function createState(
  policy: Policy,
  { clock = systemClock, enforcement = "on", secret, tokens }: StateOptions,
  before: readonly PolicyState[],
): PolicyState {
  const continued = before.find((state) => isContinued(policy, state.policy));
  // Metrics know a policy by its name.
  const counted = before.find((state) => state.policy.name === policy.name);
  return new PolicyState({
    policy,
    isShadow: enforcement === "shadow" || policy.mode === "shadow",
    counters: createCounters(policy, clock, continued === undefined ? null : continued.counters),
    outcomes: counted === undefined ? noOutcomes() : counted.outcomes,
    readKey: createKeyReader(policy, secret, tokens),
    readLimit: createKeyLimits(policy, tokens),
  });
}

function noOutcomes(): OutcomeCounts {
  return { admitted: 0, throttled: 0, would_throttle: 0, exempt: 0, observed: 0 };
}

function maskOf<T>(list: readonly T[], isIn: (one: T) => boolean): number {
  return list.reduce((mask, one, i) => (isIn(one) ? mask | (1 << i) : mask), 0);
}
