// The oracle for several policies: every admission ever, in lists that are looked through from the start each time. Knows
// the requests of policy-model.sampled.test.ts only: their keys are texts, and their networks are an address or its /24. In a sliding
// window, an admission counts from the next whole millisecond on.
import type { Method } from "../../src/core/method.ts";
import type { Outcome, Policy } from "../../src/core/policy.ts";

export interface ModelRequest {
  readonly client: string;
  readonly method: Method;
  readonly target: string;
  /** Its digest. */
  readonly token: string | null;
  readonly plan: string | null;
  readonly subject: string | null;
}

export interface Charge {
  readonly key: string;
  readonly units: number;
  readonly atMs: number;
  readonly wallMs: number;
  /** The exchange it was charged for. */
  readonly exchange: number;
  isGivenBack: boolean;
  hasEnded: boolean;
}

export interface Told {
  readonly outcome: Outcome;
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
}

export interface Answer {
  readonly shown: Told;
  /** Every enforcing policy that applies. */
  readonly all: readonly Told[];
  /** The enforcing policies that refused. */
  readonly refusing: readonly Policy[];
  /** Whether the refusal that is shown may end at any time, because of units that are only held. */
  readonly mayEndSoon: boolean;
}

/** What one policy says of a request. */
interface Opinion {
  readonly policy: Policy;
  readonly key: string;
  readonly limit: number;
  readonly fits: boolean;
  readonly left: number;
  readonly resetMs: number;
  readonly mayEndSoon: boolean;
}

interface Now {
  readonly nowMs: number;
  readonly wallMs: number;
}

const periodsMs: Readonly<Record<string, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

export class PolicyModel {
  policies: readonly Policy[] = [];
  isShadow: (policy: Policy) => boolean = () => false;
  isSecond: (policy: Policy) => boolean = () => false;
  readonly charges = new Map<string, Charge[]>();
  readonly outcomes = new Map<string, Record<Outcome, number>>();
  #exchanges = 0;

  /** Returns the answer, and the number of the exchange. */
  take(request: ModelRequest, now: Now): Answer & { readonly exchange: number } {
    this.#exchanges += 1;
    const exchange = this.#exchanges;
    const applicable = this.policies.filter((policy) => matches(policy, request));
    const steps = [
      applicable.filter((policy) => !this.isSecond(policy)),
      applicable.filter((policy) => this.isSecond(policy)),
    ];
    const admitted: Told[] = [];
    let isExempt = false;
    for (const step of steps) {
      const exempt = step.filter((policy) => isExemptFrom(policy, request));
      for (const policy of exempt) this.#count(policy, "exempt");
      isExempt ||= exempt.some((policy) => !this.isShadow(policy));
      const opinions = step
        .filter((policy) => !exempt.includes(policy))
        .map((policy) => this.#ask(policy, request, now));
      const enforcing = opinions.filter(({ policy }) => !this.isShadow(policy));
      const refusing = enforcing.filter(({ fits }) => !fits);
      if (refusing.length > 0) {
        for (const { policy, fits } of opinions) {
          this.#count(policy, fits ? "observed" : this.isShadow(policy) ? "would_throttle" : "throttled");
        }
        const all = enforcing.map((each) => told(each.fits ? "observed" : "throttled", each));
        const latest = Math.max(...refusing.map(({ resetMs }) => resetMs));
        const last = refusing.find(({ resetMs }) => resetMs === latest) ?? never();
        const { mayEndSoon } = last;
        const policies = refusing.map(({ policy }) => policy);
        return { shown: told("throttled", last), all: [...admitted, ...all], refusing: policies, mayEndSoon, exchange };
      }
      for (const opinion of opinions) {
        this.#count(opinion.policy, opinion.fits ? "admitted" : "would_throttle");
        if (opinion.fits) this.#charge(opinion, now, exchange);
      }
      for (const each of enforcing) admitted.push(told("admitted", { ...each, left: each.left - each.policy.cost }));
    }
    const shown = this.#tightest(admitted) ?? this.#unspent(isExempt, now);
    return { shown, all: admitted, refusing: [], mayEndSoon: false, exchange };
  }

  end(exchange: number, status: number): void {
    for (const policy of this.policies) {
      for (const charge of this.charges.get(policy.name) ?? []) {
        if (charge.exchange !== exchange) continue;
        charge.hasEnded = true;
        if (policy.chargeStatuses === null || status === 0) continue;
        if (!policy.chargeStatuses.includes(status)) charge.isGivenBack = true;
      }
    }
  }

  /** The charges of a key that count. */
  counted(policy: Policy, key: string, now: Now): Charge[] {
    const all = this.charges.get(policy.name) ?? [];
    return all.filter((charge) => charge.key === key && !charge.isGivenBack && counts(policy, charge, now));
  }

  #ask(policy: Policy, request: ModelRequest, now: Now): Opinion {
    const key = keyOf(policy, request);
    const limit = limitOf(policy, request);
    const counted = this.counted(policy, key, now);
    const used = unitsIn(counted);
    const fits = used + policy.cost <= limit;
    const certainMs = resetOf(policy, counted, limit, now);
    const held = policy.chargeStatuses === null ? [] : counted.filter(({ hasEnded }) => !hasEnded);
    const mayEndSoon = !fits && used - unitsIn(held) + policy.cost <= limit && now.nowMs + 1000 < certainMs;
    const resetMs = mayEndSoon ? now.nowMs + 1000 : certainMs;
    return { policy, key, limit, fits, left: Math.max(0, limit - used), resetMs, mayEndSoon };
  }

  #charge({ policy, key }: Opinion, now: Now, exchange: number): void {
    const atMs = Math.ceil(now.nowMs);
    const charge = { key, units: policy.cost, ...now, atMs, exchange, isGivenBack: false, hasEnded: false };
    this.charges.set(policy.name, [...(this.charges.get(policy.name) ?? []), charge]);
  }

  #count({ name }: Policy, outcome: Outcome): void {
    const counts = this.outcomes.get(name) ?? {
      admitted: 0,
      throttled: 0,
      would_throttle: 0,
      exempt: 0,
      observed: 0,
      unavailable: 0,
    };
    counts[outcome] += 1;
    this.outcomes.set(name, counts);
  }

  #tightest(admitted: readonly Told[]): Told | undefined {
    const left = ({ name, remaining }: Told): number => Math.floor(remaining / this.#named(name).cost);
    const fewest = Math.min(...admitted.map(left));
    const latest = Math.max(...admitted.filter((each) => left(each) === fewest).map(({ resetMs }) => resetMs));
    return admitted.find((each) => left(each) === fewest && each.resetMs === latest);
  }

  #unspent(isExempt: boolean, now: Now): Told {
    const policy = this.policies.find((each) => !this.isShadow(each)) ?? this.policies[0] ?? never();
    const { name, limit } = policy;
    const { rate } = policy;
    // Nothing is admitted here whose instant would be rounded up.
    const resetMs = rate.kind === "sliding" ? now.nowMs + rate.windowMs : resetOf(policy, [], limit, now);
    return { outcome: isExempt ? "exempt" : "observed", name, limit, remaining: limit, resetMs };
  }

  #named(name: string): Policy {
    return this.policies.find((policy) => policy.name === name) ?? never();
  }
}

export function unitsIn(charges: readonly Charge[]): number {
  return charges.reduce((sum, { units }) => sum + units, 0);
}

function counts({ rate }: Policy, charge: Charge, { nowMs, wallMs }: Now): boolean {
  switch (rate.kind) {
    case "sliding":
      return nowMs < charge.atMs + rate.windowMs;
    case "calendar": {
      const lengthMs = periodsMs[rate.per] ?? never();
      return Math.floor(charge.wallMs / lengthMs) === Math.floor(wallMs / lengthMs);
    }
    case "concurrency":
      return !charge.hasEnded;
  }
}

/** The instant at which more becomes available; if the cost does not fit, at which it does. */
function resetOf({ rate, cost }: Policy, counted: readonly Charge[], limit: number, { nowMs, wallMs }: Now): number {
  if (rate.kind === "concurrency") return nowMs + 1000;
  if (rate.kind === "calendar") {
    const lengthMs = periodsMs[rate.per] ?? never();
    return nowMs + ((Math.floor(wallMs / lengthMs) + 1) * lengthMs - wallMs);
  }
  const { windowMs } = rate;
  for (let expired = 1; expired <= counted.length; expired += 1) {
    const isEnough = unitsIn(counted.slice(expired)) + cost <= limit || unitsIn(counted) + cost <= limit;
    if (isEnough) return (counted[expired - 1]?.atMs ?? never()) + windowMs;
  }
  return Math.ceil(nowMs) + windowMs;
}

function told(outcome: Outcome, { policy, limit, left, resetMs }: Opinion): Told {
  return { outcome, name: policy.name, limit, remaining: left, resetMs };
}

function matches({ match: { methods, paths } }: Policy, { method, target }: ModelRequest): boolean {
  return (methods.length === 0 || methods.includes(method)) && (paths.length === 0 || paths.includes(target));
}

function isIn(client: string, network: string): boolean {
  return network === client || (network.endsWith(".0/24") && client.startsWith(network.slice(0, -"0/24".length)));
}

function isExemptFrom({ exempt }: Policy, { client }: ModelRequest): boolean {
  return exempt.some((network) => isIn(client, network));
}

function limitOf({ limit, overrides }: Policy, { client, token, plan, subject }: ModelRequest): number {
  const of = (part: string, isIt: (value: string) => boolean): number | undefined =>
    overrides.find((override) => override.part === part && isIt(override.value))?.limit;
  return (
    of("subject", (value) => value === subject) ??
    of("token", (value) => value === token) ??
    of("header", (value) => value === plan) ??
    of("client", (value) => value === client) ??
    of("client", (value) => isIn(client, value)) ??
    limit
  );
}

function keyOf({ key }: Policy, request: ModelRequest): string {
  const values = {
    client: request.client,
    method: request.method,
    route: "/v2/",
    token: request.token,
    subject: request.subject,
    header: request.plan,
    claim: request.subject,
  };
  return key.map(({ kind }) => (values[kind] ? `${kind} ${values[kind]}` : `client ${request.client}`)).join(", ");
}

function never(): never {
  throw new Error("the model is wrong");
}
