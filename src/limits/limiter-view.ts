// A read-only view of a limiter: what a request would get, and what is counted of a name. Decides by the code of the limiter,
// and changes nothing.
import type { Identity } from "../core/authentication.ts";
import { addressOfKey, type CounterKey, counterText } from "../core/counter-key.ts";
import { cidrOf, isWithin, parseCidr } from "../core/ip-address.ts";
import type { Limiter } from "../core/limiter.ts";
import { type Outcome, outcomes, type Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import type { ForgivenKey } from "../core/rules.ts";
import type { RuledIdentity } from "../core/rules-in-force.ts";
import { Ask, noKey } from "./counters.ts";
import { createKeyFinder, type NameContext, type NamedKey } from "./named-keys.ts";
import { noOutcomes, type PolicyRow, type PolicySet } from "./policies.ts";
import { whenFree } from "./table/layout.ts";
import type { Inspection, TableView } from "./table/table-view.ts";

/** What one policy says of a request that is tried. */
export interface PolicyCheck {
  readonly policy: string;
  readonly isShadow: boolean;
  /** Whether the policy is about such requests. */
  readonly matches: boolean;
  /** What would be counted for it; null: it is not asked. */
  readonly outcome: Outcome | null;
  /** Why the request is exempt: `rule ` and the id of a rule, or an entry of `exempt`; else null. */
  readonly exemptBy: string | null;
  /** Null: the policy is not asked, or the client is exempt. */
  readonly quota: CheckedQuota | null;
}

/** Before the request. If it does not fit, `resetMs` is the instant at which it does. */
interface CheckedQuota {
  /** As `counterText` returns it. */
  readonly key: string;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  /** A monotonic instant; null: nobody knows. */
  readonly resetMs: number | null;
  /** Whether what it costs is left. */
  readonly fits: boolean;
}

/** What one policy has counted of a name. */
export interface PolicyState {
  readonly policy: Policy;
  readonly isShadow: boolean;
  readonly keys: readonly KeyState[];
  /** Which requests of that name have other keys, and why; null: there are none. */
  readonly gap: string | null;
}

export interface KeyState extends Inspection {
  /** As `counterText` returns it. */
  readonly key: string;
  readonly limit: number;
  readonly remaining: number;
  /** As in `CheckedQuota`. */
  readonly resetMs: number | null;
  readonly method: string | null;
  readonly route: string | null;
  /** As in `PolicyCheck`. */
  readonly exemptBy: string | null;
}

/** Of a policy, so many admissions are listed. */
const maxAdmissions = 1000;

export class LimiterView {
  /** Decides as the limiter does, and charges nothing. Must be asked about one request at a time. */
  readonly limiter: Limiter;
  readonly table: TableView;
  readonly #set: PolicySet;

  /** `limiter`: decides by the policies of the set. */
  constructor(table: TableView, set: PolicySet, limiter: Limiter) {
    this.table = table;
    this.#set = set;
    this.limiter = limiter;
  }

  get rows(): readonly PolicyRow[] {
    return this.#set.rows;
  }

  /** Must be called before the limiter is asked about a request. */
  begin(): void {
    for (const { outcomes: counted, ask } of this.rows) {
      Object.assign(counted, noOutcomes());
      ask.key = noKey;
    }
  }

  /** What the policies have said since `begin`. */
  tried(request: ParsedRequest, head: RequestHead, identity: Identity | null, context: NameContext): PolicyCheck[] {
    const matching = request.route === null ? 0 : this.#set.match(request, head);
    return this.rows.map((row, i) => {
      const { policy, isShadow, outcomes: counted, ask } = row;
      const outcome = outcomes.find((each) => counted[each] > 0) ?? null;
      const isAsked = outcome !== null && outcome !== "exempt" && ask.key !== noKey;
      return {
        ...{ policy: policy.name, isShadow, outcome },
        matches: (matching & (1 << i)) !== 0,
        exemptBy: outcome === "exempt" ? this.#exemptBy(row, request.client, request.counterKey, identity) : null,
        quota: isAsked
          ? {
              key: counterText(ask.key, context.ipv6Prefix),
              limit: ask.limit,
              used: ask.counted,
              remaining: Math.max(0, ask.limit - ask.counted),
              fits: ask.counted + ask.units <= ask.limit,
              resetMs: ask.knownResetMs,
            }
          : null,
      };
    });
  }

  /** Returns what the policies have counted of a name. Resolves with null for a name that is none. */
  async state(name: ForgivenKey, context: NameContext, nowMs: () => number): Promise<PolicyState[] | null> {
    const find = createKeyFinder(name, context);
    if (find === null) return null;
    const states: PolicyState[] = [];
    for (const row of this.rows) {
      const { policy, isShadow } = row;
      const { keys: named, gap } = find(row);
      const most = Math.max(1, Math.floor(maxAdmissions / Math.max(1, named.length)));
      const keys: KeyState[] = [];
      for (const each of named) {
        keys.push(await whenFree(() => this.#stateOf(row, each, name, context, most, nowMs())));
      }
      states.push({ policy, isShadow, keys, gap });
    }
    return states;
  }

  /** A rule comes before the configuration. */
  #exemptBy(
    { policy: { name, exempt }, runtimeRules }: PolicyRow,
    client: string,
    counterKey: CounterKey,
    identity: RuledIdentity | null,
  ): string | null {
    const rules = [
      ...(identity === null ? [] : runtimeRules.ofIdentity(identity)),
      ...(counterKey.isAddress ? runtimeRules.ofClient(counterKey.literal ?? counterKey) : []),
    ];
    const rule = rules.find(({ action, policy }) => action === "exempt" && (policy === null || policy === name));
    if (rule !== undefined) return `rule ${rule.id}`;
    const address = counterKey.literal === null ? parseCidr(client)?.network : addressOfKey(counterKey.literal);
    return (address && exempt.find((text) => isWithin(address, cidrOf(text)))) ?? null;
  }

  #stateOf(
    row: PolicyRow,
    { key, client, limit, method, route }: NamedKey,
    name: ForgivenKey,
    context: NameContext,
    most: number,
    nowMs: number,
  ): KeyState {
    const { policy, local } = row;
    // Not the row's own Ask: a request that is tried may be using that.
    const ask = new Ask();
    const isExempt = limit === 0;
    Object.assign(ask, { key, client: client ?? key, limit: isExempt ? policy.limit : limit, units: policy.cost });
    const inspection = local.inspect(ask, nowMs, this.table, most);
    return {
      ...inspection,
      ...{ key: counterText(key, context.ipv6Prefix), method, route },
      exemptBy: isExempt ? this.#exemptBy(row, name.value, client ?? key, identityNamed(name)) : null,
      limit: ask.limit,
      remaining: ask.remaining,
      resetMs: ask.knownResetMs,
    };
  }
}

/** A listed token has the subject of its name. */
function identityNamed({ kind, value }: ForgivenKey): RuledIdentity | null {
  if (kind !== "token" && kind !== "subject") return null;
  return { tokenName: kind === "token" ? value : null, subject: value };
}
