// The oracle of the limiter: every charge ever, in lists that are looked through from the start each time. Too slow to serve
// with and too simple to be wrong. Knows the requests of policy-steps.ts only: their keys are texts, and their networks are an
// address or its /24. In a sliding window, an admission counts from the next whole millisecond on.
import type { Method } from "../../src/core/method.ts";
import { type Outcome, type Policy, saysWho } from "../../src/core/policy.ts";

export interface ModelRequest {
  readonly client: string;
  readonly method: Method;
  readonly target: string;
  /** Its digest. */
  readonly token: string | null;
  readonly plan: string | null;
  readonly subject: string | null;
}

/** One of several questions about a quota that come together. */
export interface ModelQuestion {
  readonly request: ModelRequest;
  /** The name of the only policy that is asked; null: all that apply. */
  readonly policy: string | null;
  readonly hits: number;
}

interface Charge {
  readonly key: string;
  readonly units: number;
  readonly nowMs: number;
  /** In whole milliseconds. */
  readonly atMs: number;
  readonly wallMs: number;
  /** The exchange it was charged for; 0: none, since nothing is held for it. */
  readonly exchange: number;
  /** Given back, or forgiven. */
  isGone: boolean;
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
  readonly used: number;
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
  /** The limit of a client in a policy that a person has set, by both names. */
  readonly rules = new Map<string, number>();
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
      const exempt = step.filter((policy) => this.#isExempt(policy, request));
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
        if (opinion.fits) this.#charge(opinion, opinion.policy.cost, now, exchange);
      }
      for (const each of enforcing) admitted.push(told("admitted", { ...each, left: each.left - each.policy.cost }));
    }
    const shown = this.#tightest(admitted) ?? this.#unspent(isExempt, now);
    return { shown, all: admitted, refusing: [], mayEndSoon: false, exchange };
  }

  /** Whether anything was taken for an exchange that its end decides about. */
  holds(exchange: number): boolean {
    const held = this.policies.filter(isHeld).flatMap(({ name }) => this.charges.get(name) ?? []);
    return held.some((charge) => charge.exchange === exchange);
  }

  end(exchange: number, status: number): void {
    for (const policy of this.policies) {
      for (const charge of this.charges.get(policy.name) ?? []) {
        if (charge.exchange !== exchange) continue;
        charge.hasEnded = true;
        if (policy.chargeStatuses === null || status === 0) continue;
        if (!policy.chargeStatuses.includes(status)) charge.isGone = true;
      }
    }
  }

  /** What is shown to a client whose requests are not limited. */
  show(client: string, now: Now): Told {
    const isShown = ({ key: [part, ...others], match: { methods, paths } }: Policy): boolean =>
      part?.kind === "client" && others.length + methods.length + paths.length === 0;
    const policy = this.policies.find((each) => isShown(each) && !this.isShadow(each));
    if (policy === undefined) return this.#unspent(false, now);
    const request = { ...nobody, client };
    if (this.#isExempt(policy, request)) return unspentOf(policy, "exempt", now);
    const { limit, left, resetMs } = this.#ask(policy, request, now, true);
    return { outcome: "observed", name: policy.name, limit, remaining: left, resetMs };
  }

  /**
   * Charges all questions that come together, or none. Returns whether each is refused. Policies that hold anything until the
   * end of an exchange are not asked.
   */
  askAll(questions: readonly ModelQuestion[], now: Now): boolean[] {
    const sums = new Map<string, { readonly opinion: Opinion; units: number }>();
    const asked = questions.map(({ request, policy: named, hits }) => {
      const applicable = this.policies.filter(
        (policy) => !isHeld(policy) && (named === null || named === policy.name) && matches(policy, request),
      );
      const exempt = applicable.filter((policy) => this.#isExempt(policy, request));
      for (const policy of exempt) this.#count(policy, "exempt");
      return applicable
        .filter((policy) => !exempt.includes(policy))
        .map((policy) => {
          const opinion = this.#ask(policy, request, now);
          const sum = sums.get(`${policy.name} ${opinion.key}`) ?? { opinion, units: 0 };
          sum.units += hits * policy.cost;
          sums.set(`${policy.name} ${opinion.key}`, sum);
          return sum;
        });
    });
    const fits = ({ opinion: { used, limit }, units }: { opinion: Opinion; units: number }): boolean =>
      used + units <= limit;
    const all = [...sums.values()];
    const isCharged = all.every((sum) => fits(sum) || this.isShadow(sum.opinion.policy));
    for (const sum of asked.flat()) {
      const { policy } = sum.opinion;
      const refused = this.isShadow(policy) ? "would_throttle" : "throttled";
      this.#count(policy, fits(sum) ? (isCharged ? "admitted" : "observed") : refused);
    }
    if (isCharged) for (const sum of all.filter(fits)) this.#charge(sum.opinion, sum.units, now, 0);
    return asked.map((sumsOf) => sumsOf.some((sum) => !fits(sum) && !this.isShadow(sum.opinion.policy)));
  }

  /** Forgets what a client is counted as, where nothing else says who it is. Returns the units, by policy. */
  forgive(client: string, now: Now): ReadonlyMap<string, number> {
    const units = new Map<string, number>();
    for (const policy of this.policies) {
      if (policy.rate.kind === "concurrency" || !policy.key.some(({ kind }) => saysWho(kind))) continue;
      const keys = ["GET", "POST"].map((method) => keyOf(policy, { ...nobody, client, method: method as Method }));
      const forgiven = [...new Set(keys)].flatMap((key) => this.counted(policy, key, now));
      units.set(policy.name, unitsIn(forgiven));
      for (const charge of this.charges.get(policy.name) ?? []) charge.isGone ||= keys.includes(charge.key);
    }
    return units;
  }

  /** The charges of a key that count. */
  counted(policy: Policy, key: string, now: Now): Charge[] {
    const all = this.charges.get(policy.name) ?? [];
    return all.filter((charge) => charge.key === key && !charge.isGone && counts(policy, charge, now));
  }

  /** What is left of the policy to a request. */
  leftOf(policy: Policy, request: ModelRequest, now: Now): number {
    return this.#ask(policy, request, now).left;
  }

  #ask(policy: Policy, request: ModelRequest, now: Now, isShown = false): Opinion {
    const key = keyOf(policy, request);
    const limit = this.#limitOf(policy, request);
    const counted = this.counted(policy, key, now);
    const used = unitsIn(counted);
    const fits = used + policy.cost <= limit;
    const held = policy.chargeStatuses === null ? 0 : unitsIn(counted.filter(({ hasEnded }) => !hasEnded));
    const certainMs = resetOf(policy, counted, limit, now, isShown);
    const mayEndSoon = !fits && used - held + policy.cost <= limit && now.nowMs + 1000 < certainMs;
    const resetMs = mayEndSoon ? now.nowMs + 1000 : certainMs;
    return { policy, key, limit, fits, used, left: Math.max(0, limit - used), resetMs, mayEndSoon };
  }

  #limitOf(policy: Policy, request: ModelRequest): number {
    return this.#ruledLimit(policy, request) ?? limitOf(policy, request);
  }

  /** A rule holds for those who are exempt, too. */
  #isExempt(policy: Policy, request: ModelRequest): boolean {
    return this.#ruledLimit(policy, request) === undefined && isExemptFrom(policy, request);
  }

  #ruledLimit({ name, key }: Policy, { client }: ModelRequest): number | undefined {
    return key.some(({ kind }) => kind === "client") ? this.rules.get(`${name} ${client}`) : undefined;
  }

  #charge({ policy, key }: Opinion, units: number, now: Now, exchange: number): void {
    const charge = { ...now, key, units, atMs: Math.ceil(now.nowMs), exchange, isGone: false, hasEnded: false };
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
    return unspentOf(policy, isExempt ? "exempt" : "observed", now);
  }

  #named(name: string): Policy {
    return this.policies.find((policy) => policy.name === name) ?? never();
  }
}

export function unitsIn(charges: readonly Charge[]): number {
  return charges.reduce((sum, { units }) => sum + units, 0);
}

/** A policy that holds something until the end of an exchange. */
function isHeld({ rate, chargeStatuses }: Policy): boolean {
  return rate.kind === "concurrency" || chargeStatuses !== null;
}

function unspentOf(policy: Policy, outcome: Outcome, now: Now): Told {
  const { name, limit } = policy;
  return { outcome, name, limit, remaining: limit, resetMs: resetOf(policy, [], limit, now, true) };
}

function counts({ rate }: Policy, charge: Charge, { nowMs, wallMs }: Now): boolean {
  switch (rate.kind) {
    case "sliding":
      return nowMs < charge.atMs + Math.ceil(rate.windowMs);
    case "calendar": {
      const lengthMs = periodsMs[rate.per] ?? never();
      return Math.floor(charge.wallMs / lengthMs) === Math.floor(wallMs / lengthMs);
    }
    case "concurrency":
      return !charge.hasEnded;
  }
}

/** The instant at which more becomes available; if the cost does not fit, at which it does. */
function resetOf(
  { rate, cost }: Policy,
  counted: readonly Charge[],
  limit: number,
  { nowMs, wallMs }: Now,
  isShown: boolean,
): number {
  if (rate.kind === "concurrency") return nowMs + 1000;
  if (rate.kind === "calendar") {
    const lengthMs = periodsMs[rate.per] ?? never();
    return nowMs + ((Math.floor(wallMs / lengthMs) + 1) * lengthMs - wallMs);
  }
  const windowMs = Math.ceil(rate.windowMs);
  const used = unitsIn(counted);
  const excess = Math.max(1, used + cost - limit);
  const expiryOf = (unit: number): number | undefined => {
    const charge = counted.find((_, i) => unitsIn(counted.slice(0, i + 1)) >= unit);
    return charge && charge.atMs + windowMs;
  };
  if (isShown) return expiryOf(Math.min(used, excess)) ?? nowMs + windowMs;
  // With none or too few that could expire, a higher limit has to be set first.
  return expiryOf(excess) ?? (used + cost <= limit ? Math.ceil(nowMs) : nowMs) + windowMs;
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

/** Who says nothing but its address. */
const nobody = { client: "", method: "GET", target: "/v2/x", token: null, plan: null, subject: null } as const;

function never(): never {
  throw new Error("the model is wrong");
}
