// What a word on the command line means: an address or a network is a client, the form of a request id a request, and any other
// word the name of a token. `kind:value` is always possible.
import { formatCidr, formatIpAddress, parseCidr, parseIpAddress } from "../../core/ip-address.ts";
import { withFirstAddress } from "../../core/network-set.ts";
import { quote } from "../given.ts";

export type KeyKind = "client" | "token" | "subject" | "key";

export interface NamedClient {
  readonly kind: KeyKind;
  /** Of a client: an address or a network, in canonical text. */
  readonly value: string;
  /** True: it was named without its kind. */
  readonly isBare: boolean;
}

/** Whom a rule can be about. */
export interface RuledClient extends NamedClient {
  readonly kind: Exclude<KeyKind, "key">;
}

/** What `why` is asked about. `text`: as it was written. */
export type WhyAsked = { readonly text: string } & (
  | { readonly kind: "request"; readonly id: string }
  | { readonly kind: "client"; readonly client: NamedClient }
);

/** As the API writes it, such as `client:203.0.113.7`. */
export function keyOf({ kind, value }: Pick<NamedClient, "kind" | "value">): string {
  return `${kind}:${value}`;
}

/** Reads a key that the API has written. */
export function namedByKey(key: string): NamedClient {
  const [, kind, value = ""] = withKind.exec(key) ?? [];
  return kind === undefined
    ? { kind: "token", value: key, isBare: true }
    : { kind: kind as KeyKind, value, isBare: false };
}

const withKind = /^(client|token|subject|key):(.*)$/s;
/** As the gateway makes them, and the same without hyphens. */
const requestId = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/i;

/** Returns a message about what is wrong. */
export function readNamedClient(text: string): NamedClient | string {
  const address = addressOf(text);
  if (address !== null) return { kind: "client", value: address, isBare: true };
  if (requestId.test(text)) return `found a request id, expected a client: "headgate why ${text}" says which`;
  const [, kind, value = ""] = withKind.exec(text) ?? [];
  if (kind === undefined) return { kind: "token", value: text, isBare: true };
  if (value === "") return `found nothing after "${kind}:", expected ${expectedValues[kind as KeyKind]}`;
  const canonical = kind === "client" ? addressOf(value) : value;
  if (canonical === null) return `found another text after "client:", expected ${expectedValues.client}`;
  if (kind === "key" && !/^[0-9a-f]{32}$/.test(value))
    return `found another text after "key:", expected ${expectedValues.key}`;
  return { kind: kind as KeyKind, value: canonical, isBare: false };
}

const expectedValues: Readonly<Record<KeyKind, string>> = {
  client: "an address or a network, such as 203.0.113.0/24",
  token: "the name of a listed token",
  subject: "a subject",
  key: "32 hexadecimal digits in lower case",
};

/** A host name, or what was to be an address. */
const readsAsHost = /^(?:localhost|[\w-]+(?:\.[\w-]+)+\.?(?:[:/]\S*)?|[\da-f.]*[:/[][\da-f.:/[\]%\w]*)$/i;

export function readRuledClient(text: string): RuledClient | string {
  const named = readNamedClient(text);
  if (typeof named === "string") return named;
  const { kind } = named;
  // A rule about a token that nobody lists is accepted, and about nobody.
  if (named.isBare && kind === "token" && readsAsHost.test(text))
    return `found ${quote(text)}, which reads as a host, expected an address or a network; a token of this name is token:${text}`;
  if (kind === "key") return "found a key of which only a hash is known, expected a client, a token or a subject";
  return { ...named, kind };
}

/** Returns a message about what is wrong. */
export function readWhy(text: string): WhyAsked | string {
  if (requestId.test(text)) return { text, kind: "request", id: text };
  const client = readNamedClient(text);
  return typeof client === "string" ? client : { text, kind: "client", client };
}

/** The canonical text of an address or a network; null for another text. */
function addressOf(text: string): string | null {
  // A zone is that of a machine, which need not be the gateway's.
  if (text.includes("%")) return null;
  const address = parseIpAddress(text);
  if (address !== undefined) return formatIpAddress(address);
  const network = parseCidr(text);
  return network === undefined ? null : formatCidr(withFirstAddress(network));
}
