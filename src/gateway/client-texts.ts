// How clients are written in calls of the admin API, and which client or network is meant.
import { isNarrower, wideEnough } from "../config/addresses.ts";
import { type CounterKey, hexOfKey } from "../core/counter-key.ts";
import { type Cidr, clientKey, formatIpAddress, isIpv4, parseCidr, parseIpAddress } from "../core/ip-address.ts";
import { withFirstAddress } from "../core/network-set.ts";
import type { ForgivenKey } from "../core/rules.ts";

/** A network, and its canonical text. A single address is a network of one client. */
export interface ClientText {
  readonly text: string;
  readonly cidr: Cidr;
}

/** `expected`: what would have been accepted. */
export type ClientReading =
  | { readonly ok: true; readonly client: ClientText }
  | { readonly ok: false; readonly expected: string };

/** An address stands for the client that is charged for it: with IPv6, for a whole network. */
export function readClientText(written: string, ipv6Prefix: number): ClientReading {
  const address = written.includes("%") ? undefined : parseIpAddress(written);
  const cidr = parseCidr(address === undefined ? written : clientKey(address, ipv6Prefix));
  if (cidr === undefined) return { ok: false, expected: 'an address or a network such as "10.0.0.0/8"' };
  if (isNarrower(cidr, ipv6Prefix)) return { ok: false, expected: wideEnough(ipv6Prefix) };
  const first = withFirstAddress(cidr);
  return { ok: true, client: { text: networkText(first), cidr: first } };
}

/** The text of `network`, without a prefix if it is one address. */
function networkText({ network, prefixBits }: Cidr): string {
  if (prefixBits === 128) return formatIpAddress(network);
  const isDotted = isIpv4(network) && prefixBits >= 96;
  return `${formatIpAddress(network)}/${isDotted ? prefixBits - 96 : prefixBits}`;
}

type KeyReading = { readonly ok: true; readonly key: ForgivenKey } | { readonly ok: false; readonly expected: string };

/** `written`: such as `client:203.0.113.7`. */
export function readKeyText(written: string, ipv6Prefix: number): KeyReading {
  const [kind = ""] = written.split(":", 1);
  const value = written.slice(kind.length + 1);
  switch (kind) {
    case "client": {
      const reading = readClientText(value, ipv6Prefix);
      return reading.ok ? { ok: true, key: { kind, value: reading.client.text } } : reading;
    }
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

export function keyText({ kind, value }: ForgivenKey): string {
  return `${kind}:${value}`;
}

/** Writes a counter whose name is not known otherwise. */
export function counterText(key: Pick<CounterKey, "a" | "b" | "c" | "d" | "isAddress">, ipv6Prefix: number): string {
  if (!key.isAddress) return `key:${hexOfKey(key)}`;
  const groups = [key.a, key.b, key.c, key.d].flatMap((word) => [(word >>> 16) & 0xffff, word & 0xffff]);
  return `client:${clientKey(groups, ipv6Prefix)}`;
}
