// What clients have used, for people: reads the keys that they write, asks what is counted of them, and adds the rules that are
// about them. Only `forgive` changes anything.
import type {
  CheckedRequest,
  ClientControl,
  ClientState,
  ControlResult,
  ForgivenAnswer,
  RuleControl,
} from "../../admin/control-plane.ts";
import { addressKey, clientOfKey, countedKey } from "../../core/counter-key.ts";
import { enumerate } from "../../core/enumerate.ts";
import { cidrOf, formatIpAddress, type IpAddress, isWithin, parseIpAddress } from "../../core/ip-address.ts";
import { refusalSentences } from "../../core/local-reply.ts";
import type { Policy } from "../../core/policy.ts";
import type { ForgivenKey, Rule } from "../../core/rules.ts";
import type { RulesInForce } from "../../core/rules-in-force.ts";
import { type Period, periodAt } from "../../limits/calendar.ts";
import type { KeyState, PolicyCheck, PolicyState } from "../../limits/limiter-view.ts";
import { networkKey } from "../../limits/table/eviction.ts";
import type { TriedAnswer } from "../clients.ts";
import type { Forgave } from "../forgiving.ts";
import { type ClientListOptions, listClients, refusalsByKey, sinceOf, usageOf } from "./client-lists.ts";
import { keyText, readKeyText } from "./key-text.ts";

interface ClientControlOptions extends ClientListOptions {
  readonly inForce: RulesInForce;
  readonly rules: Pick<RuleControl, "find">;
  /** Forgives a key in all threads and at all gateways. Resolves with null for a name that is none. */
  readonly forgive: (key: ForgivenKey) => Promise<Forgave | null>;
}

export function createClientControl(options: ClientControlOptions): ClientControl {
  const { clients, recent, settings, wallMs, inForce, rules } = options;
  const ipv6Prefix = (): number => settings().clientAddress.ipv6Prefix;
  const read = (key: string) => readKeyText(key, ipv6Prefix());
  const about = (key: ForgivenKey) => rulesAbout(key, inForce, ipv6Prefix());
  return {
    async list(wanted) {
      const names = settings().policies.map(({ name }) => name);
      if (wanted.policy !== null && !names.includes(wanted.policy)) {
        return unacceptable(`query.policy: found an unknown name, expected ${enumerate(names)}`);
      }
      const list = await listClients(options, wanted);
      const listed = list.clients.map((client) => {
        const reading = client.key === null ? null : read(client.key);
        const actions = reading?.ok === true ? about(reading.key).map(({ action }) => action) : [];
        return { ...client, actions: [...new Set(actions)] };
      });
      return { ok: true, value: { ...list, clients: listed } };
    },
    async find(written) {
      const reading = read(written);
      if (!reading.ok) return unacceptable(`path.key: found another value, expected ${reading.expected}`);
      const { key } = reading;
      const shown = about(key).flatMap(({ id }) => rules.find(id)?.rule ?? []);
      const state = await clients.state(key);
      const lists = (state?.policies ?? []).map(({ policy }) => recent.refused(policy.name));
      const policies = (state?.policies ?? []).flatMap((policy, i) => {
        const refused = refusalsByKey(lists[i], ipv6Prefix());
        return policy.keys.map((each) => ({
          ...keyAnswer(policy, each, wallMs()),
          refused: refused.get(each.key) ?? null,
        }));
      });
      const isKnown = state !== null && (key.kind !== "key" || policies.some(({ used }) => used > 0));
      if (!isKnown && shown.length === 0) return unknownKey;
      // A network of several clients has no counts of its own, and may have rules.
      const counted = { policies: isKnown ? policies : [], isShared: options.isShared(), refusedSince: sinceOf(lists) };
      return { ok: true, value: { key: keyText(key), ...counted, rules: shown } };
    },
    async forgive(written) {
      const reading = read(written);
      if (!reading.ok) return unacceptable(`path.key: found another value, expected ${reading.expected}`);
      const forgiven = await options.forgive(reading.key);
      return forgiven === null ? unknownKey : { ok: true, value: forgivenAnswer(reading.key, forgiven, ipv6Prefix()) };
    },
    async check(wanted) {
      const address = wanted.client.includes("%") ? undefined : parseIpAddress(wanted.client);
      if (address === undefined) return unacceptable("body.client: found another text, expected an IP address");
      const rawHeaders = Object.entries(wanted.headers ?? {}).flat();
      const tried = await clients.check({ ...wanted, client: formatIpAddress(address), rawHeaders });
      if (tried === null) throw new Error("the address of a check was read before");
      return { ok: true, value: checkedRequest(address, tried, options) };
    },
  };
}

const unknownKey: ControlResult<never> = { ok: false, why: "absent", details: ["Nothing is counted for this key."] };

function unacceptable(detail: string): ControlResult<never> {
  return { ok: false, why: "unacceptable", details: [detail] };
}

/** Returns the rules about all that a key stands for: of a client's network, those about all of it. */
function rulesAbout({ kind, value }: ForgivenKey, inForce: RulesInForce, ipv6Prefix: number): readonly Rule[] {
  switch (kind) {
    case "client": {
      const cidr = cidrOf(value);
      const covering = inForce.ofClient(addressKey(cidr.network, ipv6Prefix));
      return covering.filter(({ about }) => {
        const outer = cidrOf(about.value);
        return outer.prefixBits <= cidr.prefixBits && isWithin(cidr.network, outer);
      });
    }
    case "token":
    case "subject":
      // The name of a listed token is its subject too.
      return inForce.ofIdentity({ tokenName: value, subject: value });
    case "key":
      return [];
  }
}

// One client

function keyAnswer(
  { policy, isShadow, gap }: PolicyState,
  { units, limit, remaining, resetMs, method, route, coarse, admissions, heldUnits, exemptBy }: KeyState,
  nowMs: number,
): Omit<ClientState["policies"][number], "refused"> {
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
): ForgivenAnswer {
  const isWholeNetwork = policies.some(({ coarse }) => coarse === "network");
  return {
    key: keyText(key),
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
  address: IpAddress,
  tried: TriedAnswer,
  { inForce, settings, isShared, wallMs }: ClientControlOptions,
): CheckedRequest {
  const about = inForce.ofClient(countedKey(address, settings().clientAddress.ipv6Prefix));
  const { subject } = tried;
  const named = subject === null ? [] : inForce.ofIdentity({ tokenName: subject, subject });
  return {
    ...{ status: tried.status ?? 200, reason: tried.reason, policy: tried.policy, route: tried.route },
    ...{ client: tried.client, auth: tried.auth, isVerified: tried.isVerified, subject, isShared: isShared() },
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
  if (reason === "throttled") return [`Policy ${policy} refuses it: ${status}.`, ...notes];
  const why = reason && refusalSentences[reason];
  return [`The gateway answers ${status}${reason === null ? "" : ` (${reason})`}.`, ...(why ? [why] : []), ...notes];
}
