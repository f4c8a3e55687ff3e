// How keys are written in calls of the admin API, and which client or network is meant.
import { isNarrower, wideEnough } from "../../config/addresses.ts";
import { clientKey, countedAs, formatCidr, parseCidr, parseIpAddress } from "../../core/ip-address.ts";
import { withFirstAddress } from "../../core/network-set.ts";
import type { ForgivenKey } from "../../core/rules.ts";

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
