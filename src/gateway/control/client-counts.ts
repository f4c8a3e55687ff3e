// What clients have used and how often they were refused, in the form of the admin API. Reads the counters and the sketches of
// refusals; a page of many keys is read in portions, so that no turn of the event loop is long.
import { setImmediate } from "node:timers/promises";
import type {
  CheckedRequest,
  CheckWanted,
  ClientCounts,
  ClientState,
  ClientsWanted,
  CountedList,
  ForgivenAnswer,
} from "../../admin/control-plane.ts";
import type { ListedTokens } from "../../core/authentication.ts";
import { addressKey, clientOfKey, countedKey, counterText } from "../../core/counter-key.ts";
import { cidrOf, parseIpAddress } from "../../core/ip-address.ts";
import type { Policy } from "../../core/policy.ts";
import type { ForgivenKey } from "../../core/rules.ts";
import type { RulesInForce } from "../../core/rules-in-force.ts";
import type { Settings } from "../../core/settings.ts";
import { type Period, periodAt } from "../../limits/calendar.ts";
import type { ListedKey } from "../../limits/key-listing.ts";
import type { KeyState, PolicyCheck, PolicyState } from "../../limits/limiter-view.ts";
import { networkKey } from "../../limits/table/eviction.ts";
import type { MostRefused, Recent } from "../../telemetry/recent/recent.ts";
import type { Clients, TriedAnswer } from "../clients.ts";
import type { Forgave } from "../forgiving.ts";
import { keyText } from "./client-control.ts";

export interface ClientCountsOptions {
  readonly clients: Clients;
  readonly recent: Pick<Recent, "refused">;
  /** In force. */
  readonly settings: () => Settings;
  readonly listedTokens: () => ListedTokens | null;
  readonly rules: RulesInForce;
  readonly wallMs: () => number;
  /** Forgives a key in all threads and at all gateways. Resolves with null for a name that is none. */
  readonly forgive: (key: ForgivenKey) => Promise<Forgave | null>;
}

type ListedClient = CountedList["clients"][number];

/** How many keys are read in one turn of the event loop. */
const keysInTurn = 16;

export function createClientCounts(options: ClientCountsOptions): ClientCounts {
  const { clients, settings, wallMs } = options;
  return {
    list: (wanted) => (wanted.sort === "refused" ? listByRefusals(options, wanted) : listByUse(options, wanted)),
    async find(key) {
      const state = await clients.state(key);
      if (state === null) return null;
      const policies = state.policies.flatMap((policy) => policy.keys.map((each) => keyAnswer(policy, each, wallMs())));
      const isKnown = key.kind !== "key" || policies.some(({ used }) => used > 0);
      return isKnown ? { key: keyText(key), policies, isShared: state.isShared } : null;
    },
    async forgive(key) {
      const forgiven = await options.forgive(key);
      return forgiven && forgivenAnswer(key, forgiven, settings().clientAddress.ipv6Prefix);
    },
    async check(wanted) {
      const tried = await clients.check({ ...wanted, rawHeaders: Object.entries(wanted.headers ?? {}).flat() });
      if (tried === null) throw new Error("the address of a check was read before");
      return checkedRequest(wanted, tried, options);
    },
  };
}

// Lists

async function listByUse(
  { clients, recent, settings, wallMs }: ClientCountsOptions,
  { policy, sort, search, limit }: ClientsWanted,
): Promise<CountedList> {
  const listed = await clients.list({
    ...{ policy, search: search ?? "", limit },
    sort: sort === "recent" ? sort : "used",
  });
  const names = [...new Set(listed.map((key) => key.policy))];
  const refused = new Map(names.map((name) => [name, recent.refused(name)]));
  const { ipv6Prefix } = settings().clientAddress;
  const counts = new Map(names.map((name) => [name, refusalsByKey(refused.get(name), ipv6Prefix)]));
  return {
    clients: listed.map((key) => ({
      ...listedAnswer(key, wallMs()),
      refused: counts.get(key.policy)?.get(key.id ?? "") ?? null,
      seen: null,
    })),
    refusedSince: sinceOf([...refused.values()]),
    isComplete: listed.length < limit,
    isShared: settings().counters.redis !== null,
  };
}

function refusalsByKey(most: MostRefused | undefined, ipv6Prefix: number) {
  return new Map(
    most?.keys.map(({ key, count, error }) => [counterText(key, ipv6Prefix), { count, error }] as const) ?? [],
  );
}

async function listByRefusals(
  { clients, recent, settings, wallMs, listedTokens }: ClientCountsOptions,
  { policy: only, search, limit }: ClientsWanted,
): Promise<CountedList> {
  const { policies, clientAddress, counters } = settings();
  const asked = policies.filter(({ name }) => only === null || name === only);
  const lists = asked.map((policy) => ({ policy, most: recent.refused(policy.name) }));
  const names = listedTokens()?.names() ?? new Set<string>();
  const found = lists
    .flatMap(({ policy, most }) =>
      most.keys.map(({ key, count, error, seen }) => {
        const isOfToken = policy.key.length === 1 && ["token", "subject"].includes(policy.key[0]?.kind ?? "");
        const token = isOfToken && seen?.subject != null && names.has(seen.subject) ? seen.subject : null;
        const id = token === null ? counterText(key, clientAddress.ipv6Prefix) : `token:${token}`;
        const who = seen && (seen.subject ?? counterText(seen.client, clientAddress.ipv6Prefix));
        return { policy, id, count, error, seen: who };
      }),
    )
    .filter(({ id, seen }) => search === null || matches(id, search) || seen?.startsWith(search) === true)
    .sort((a, b) => b.count - a.count);
  const shown: ListedClient[] = [];
  for (const [i, { policy, id, count, error, seen }] of found.slice(0, limit).entries()) {
    if (i % keysInTurn === keysInTurn - 1) await setImmediate();
    const state = await clients.state(keyOf(id));
    const key = state?.policies.find((each) => each.policy.name === policy.name)?.keys[0];
    const { limit: own, remaining } = key ?? { limit: policy.limit, remaining: policy.limit };
    shown.push({
      ...{ key: id, name: id.slice(id.indexOf(":") + 1), policy: policy.name },
      ...{ countedAs: key?.coarse ?? null, method: null, route: null },
      ...usageOf({ limit: own, used: key?.units ?? 0, remaining, resetMs: key?.resetMs ?? null }, wallMs()),
      ...{ last: null, refused: { count, error }, seen },
    });
  }
  return {
    clients: shown,
    refusedSince: sinceOf(lists.map(({ most }) => most)),
    isComplete: found.length <= limit,
    isShared: counters.redis !== null,
  };
}

function matches(id: string, search: string): boolean {
  return id.startsWith(search) || id.slice(id.indexOf(":") + 1).startsWith(search);
}

function keyOf(id: string): ForgivenKey {
  const [kind = ""] = id.split(":", 1);
  return { kind: kind as ForgivenKey["kind"], value: id.slice(kind.length + 1) };
}

function sinceOf(lists: readonly MostRefused[]): string | null {
  const since = Math.max(...lists.map(({ sinceMs }) => sinceMs));
  return Number.isFinite(since) ? new Date(since).toISOString() : null;
}

function listedAnswer(key: ListedKey, nowMs: number): Omit<ListedClient, "refused" | "seen"> {
  const { id, name, policy, coarse, method, route, lastMs } = key;
  return {
    ...{ key: id, name, policy, countedAs: coarse, method, route, ...usageOf(key, nowMs) },
    last: lastMs === null ? null : new Date(lastMs).toISOString(),
  };
}

interface Usage {
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  /** Null: not known. */
  readonly resetMs: number | null;
}

function usageOf({ limit, used, remaining, resetMs }: Usage, nowMs: number) {
  const isUsed = used > 0 && resetMs !== null;
  return {
    ...{ limit, used, remaining },
    reset: isUsed ? new Date(resetMs).toISOString() : null,
    resetSeconds: isUsed ? Math.max(0, Math.round(resetMs - nowMs) / 1000) : null,
  };
}

// One client

function keyAnswer(
  { policy, isShadow, gap }: PolicyState,
  { units, limit, remaining, resetMs, method, route, coarse, admissions, heldUnits, exemptBy }: KeyState,
  nowMs: number,
): ClientState["policies"][number] {
  const isExempt = exemptBy !== null || limit === 0;
  const period = periodOf(policy, nowMs);
  return {
    ...{ policy: policy.name, isShadow, countedAs: coarse, method, route, gap, exemptBy, held: heldUnits },
    state: isExempt ? "exempt" : remaining < policy.cost ? "exhausted" : "open",
    ...usageOf({ limit, used: units, remaining, resetMs }, nowMs),
    period: period && {
      start: new Date(period.startMs).toISOString(),
      end: new Date(period.endMs).toISOString(),
    },
    instants: admissions.map(({ atMs, units: counted }) => ({ at: new Date(atMs).toISOString(), units: counted })),
  };
}

/** Periods are slow to find, and last. */
const periods = new WeakMap<Policy, Period>();

function periodOf(policy: Policy, nowMs: number): Period | null {
  const { rate } = policy;
  if (rate.kind !== "calendar") return null;
  const known = periods.get(policy);
  if (known !== undefined && known.startMs <= nowMs && nowMs < known.endMs) return known;
  const found = periodAt(rate.per, rate.timezone, nowMs);
  periods.set(policy, found);
  return found;
}

function forgivenAnswer(
  key: ForgivenKey,
  { policies, untouched, isShared }: Forgave,
  ipv6Prefix: number,
): Omit<ForgivenAnswer, "key"> {
  const isWholeNetwork = policies.some(({ coarse }) => coarse === "network");
  return {
    policies: policies.map(({ policy, units, coarse, gap }) => ({ policy, units, countedAs: coarse, gap })),
    network: isWholeNetwork && key.kind === "client" ? wholeNetworkOf(key.value, ipv6Prefix) : null,
    untouched: untouched.map(({ policy, why }) => ({ policy, why })),
    shared: isShared,
  };
}

function wholeNetworkOf(client: string, ipv6Prefix: number): string {
  const { network } = cidrOf(client);
  const isIpv4 = client.includes(".");
  const whole = clientOfKey(networkKey(addressKey(network, ipv6Prefix)), isIpv4 ? 128 : 48);
  return isIpv4 ? `${whole}/24` : whole;
}

// What a request would get

function checkedRequest(
  { client }: CheckWanted,
  tried: TriedAnswer,
  { rules, settings, wallMs }: ClientCountsOptions,
): CheckedRequest {
  const address = parseIpAddress(client);
  const about = address === undefined ? [] : rules.ofClient(countedKey(address, settings().clientAddress.ipv6Prefix));
  const { subject } = tried;
  const named = subject === null ? [] : rules.ofIdentity({ tokenName: subject, subject });
  return {
    ...{ status: tried.status ?? 200, reason: tried.reason, policy: tried.policy, route: tried.route },
    ...{ client: tried.client, auth: tried.auth, subject, isShared: tried.isShared },
    policies: tried.policies.map((checked) => policyCheck(checked, wallMs())),
    rules: [...new Set([...about, ...named].map(({ id }) => id))],
    explanation: explain(tried),
  };
}

function policyCheck(
  { policy, isShadow, matches: isAbout, outcome, exemptBy, quota }: PolicyCheck,
  nowMs: number,
): CheckedRequest["policies"][number] {
  return {
    ...{ policy, isShadow, matches: isAbout, outcome, exemptBy },
    quota: quota && { ...usageOf(quota, nowMs), key: quota.key, fits: quota.fits },
  };
}

function explain({ status, reason, policy, blockedBy, route, policies }: TriedAnswer): string[] {
  const shadows = policies.filter(({ isShadow, outcome }) => isShadow && outcome === "would_throttle");
  const notes = shadows.map((shadow) => `Policy ${shadow.policy} would refuse it, if it were no shadow.`);
  if (blockedBy !== null) return [`Rule ${blockedBy} blocks it: 403.`, ...notes];
  if (status === null)
    return [route === null ? "It would be forwarded, unlimited." : "It would be forwarded.", ...notes];
  const quota = policies.find((each) => each.policy === policy)?.quota;
  const when = quota?.resetMs == null ? "when a request under way ends" : `at ${new Date(quota.resetMs).toISOString()}`;
  const until = quota && !quota.fits ? ` It fits ${when}.` : "";
  if (reason === "throttled") return [`Policy ${policy} refuses it: ${status}.${until}`, ...notes];
  return [`The gateway answers ${status}${reason === null ? "" : ` (${reason})`}.`, ...notes];
}
