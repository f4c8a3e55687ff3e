// What clients have used, for people: reads the keys that they write, and adds the rules that are about a key.
import type { ClientControl, ClientCounts, ControlResult, RuleControl } from "../../admin/control-plane.ts";
import { isNarrower, wideEnough } from "../../config/addresses.ts";
import { addressKey } from "../../core/counter-key.ts";
import { enumerate } from "../../core/enumerate.ts";
import {
  cidrOf,
  clientKey,
  countedAs,
  formatCidr,
  formatIpAddress,
  isWithin,
  parseCidr,
  parseIpAddress,
} from "../../core/ip-address.ts";
import { withFirstAddress } from "../../core/network-set.ts";
import type { ForgivenKey, Rule } from "../../core/rules.ts";
import type { RulesInForce } from "../../core/rules-in-force.ts";
import type { Settings } from "../../core/settings.ts";

interface ClientControlOptions {
  readonly counts: ClientCounts;
  /** In force. */
  readonly settings: () => Pick<Settings, "policies" | "clientAddress" | "counters">;
  /** Null: there are no rules. */
  readonly rules: { readonly inForce: RulesInForce; readonly control: RuleControl } | null;
}

export function createClientControl({ counts, settings, rules }: ClientControlOptions): ClientControl {
  const read = (key: string) => readKeyText(key, settings().clientAddress.ipv6Prefix);
  const about = (key: ForgivenKey) =>
    rules === null ? [] : rulesAbout(key, rules.inForce, settings().clientAddress.ipv6Prefix);
  return {
    async list(wanted) {
      const names = settings().policies.map(({ name }) => name);
      if (wanted.policy !== null && !names.includes(wanted.policy)) {
        return unacceptable(`query.policy: found an unknown name, expected ${enumerate(names)}`);
      }
      const list = await counts.list(wanted);
      const clients = list.clients.map((client) => {
        const reading = client.key === null ? null : read(client.key);
        const actions = reading?.ok === true ? about(reading.key).map(({ action }) => action) : [];
        return { ...client, actions: [...new Set(actions)] };
      });
      return { ok: true, value: { ...list, clients } };
    },
    async find(written) {
      const reading = read(written);
      if (!reading.ok) return unacceptable(`path.key: found another value, expected ${reading.expected}`);
      const shown = about(reading.key).flatMap(({ id }) => rules?.control.find(id)?.rule ?? []);
      const found = await counts.find(reading.key);
      if (found === null && shown.length === 0) return unknownKey;
      // A network of several clients has no counts of its own, and may have rules.
      const uncounted = { key: keyText(reading.key), policies: [], isShared: settings().counters.redis !== null };
      return { ok: true, value: { ...(found ?? uncounted), rules: shown } };
    },
    async forgive(written) {
      const reading = read(written);
      if (!reading.ok) return unacceptable(`path.key: found another value, expected ${reading.expected}`);
      const forgiven = await counts.forgive(reading.key);
      return forgiven === null ? unknownKey : { ok: true, value: { key: keyText(reading.key), ...forgiven } };
    },
    async check(wanted) {
      const address = wanted.client.includes("%") ? undefined : parseIpAddress(wanted.client);
      if (address === undefined) return unacceptable("body.client: found another text, expected an IP address");
      return { ok: true, value: await counts.check({ ...wanted, client: formatIpAddress(address) }) };
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

// How keys are written in calls of the admin API, and which client or network is meant.

/** `expected`: what would have been accepted. */
type KeyReading = { readonly ok: true; readonly key: ForgivenKey } | { readonly ok: false; readonly expected: string };

/** Reads a key such as `client:203.0.113.7`. */
export function readKeyText(written: string, ipv6Prefix: number): KeyReading {
  const [kind = ""] = written.split(":", 1);
  const value = written.slice(kind.length + 1);
  switch (kind) {
    case "client":
      return readClient(value, ipv6Prefix);
    case "token":
    case "subject":
      return value === "" ? { ok: false, expected: "a name" } : { ok: true, key: { kind, value } };
    case "key":
      if (!/^[0-9a-f]{32}$/.test(value)) return { ok: false, expected: "32 hexadecimal digits in lower case" };
      return { ok: true, key: { kind, value } };
    default:
      return { ok: false, expected: "client, token, subject or key, then a colon and a value" };
  }
}

/** An address stands for the client that is charged for it: with IPv6, for a whole network. */
function readClient(written: string, ipv6Prefix: number): KeyReading {
  const address = written.includes("%") ? undefined : parseIpAddress(written);
  const cidr = parseCidr(address === undefined ? written : clientKey(countedAs(address), ipv6Prefix));
  if (cidr === undefined) return { ok: false, expected: 'an address or a network such as "10.0.0.0/8"' };
  if (isNarrower(cidr, ipv6Prefix)) return { ok: false, expected: wideEnough(ipv6Prefix) };
  return { ok: true, key: { kind: "client", value: formatCidr(withFirstAddress(cidr)) } };
}

export function keyText({ kind, value }: ForgivenKey): string {
  return `${kind}:${value}`;
}
