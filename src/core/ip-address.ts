// Parses IP addresses to numbers, so that all spellings of one address are one key. Accepts exactly the textual forms
// of RFC 4291, 2.2 (IPv6) and four decimal octets (IPv4; no octal and no short forms, which parsers interpret
// differently). An IPv4-mapped IPv6 address equals the IPv4 address.

/** Eight groups of 16 bits; IPv4 as ::ffff:a.b.c.d. */
export type IpAddress = readonly number[];

export interface Cidr {
  readonly network: IpAddress;
  /** Of 128. */
  readonly prefixBits: number;
}

/** The length of "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255". */
const maxAddressLength = 45;

const mappedPrefix = [0, 0, 0, 0, 0, 0xffff] as const;

/** Returns undefined if the text is not an address. Ignores a zone (`fe80::1%eth0`), which names an interface. */
export function parseIpAddress(text: string): IpAddress | undefined {
  const zoneStart = text.indexOf("%");
  const address = zoneStart === -1 ? text : text.slice(0, zoneStart);
  if (address.length > maxAddressLength) return undefined;
  if (!address.includes(":")) return zoneStart === -1 ? parseIpv4(address) : undefined;
  return parseIpv6(address);
}

function parseIpv4(text: string): IpAddress | undefined {
  const pair = parseIpv4Groups(text);
  return pair === undefined ? undefined : [...mappedPrefix, ...pair];
}

/** Reads character by character, which takes a fraction of the time of an expression and the parts that it finds. */
function parseIpv4Groups(text: string): [number, number] | undefined {
  let address = 0;
  let octet = noDigit;
  let dots = 0;
  for (let i = 0; i < text.length; i += 1) {
    const digit = text.charCodeAt(i) - zero;
    if (digit === dot - zero) {
      if (octet === noDigit) return undefined;
      address = (address << 8) | octet;
      octet = noDigit;
      dots += 1;
    } else {
      // Some parsers read a leading zero as octal.
      if (digit < 0 || digit > 9 || octet === 0) return undefined;
      octet = octet === noDigit ? digit : octet * 10 + digit;
      if (octet > 255) return undefined;
    }
  }
  if (dots !== 3 || octet === noDigit) return undefined;
  address = (address << 8) | octet;
  return [address >>> 16, address & 0xffff];
}

const zero = 0x30;
const dot = 0x2e;
const letterA = 0x61;
const noDigit = -1;

function parseIpv6(text: string): IpAddress | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? "", halves.length === 1);
  const tail = halves.length === 2 ? parseGroups(halves[1] ?? "", true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1) return missing === 0 ? head : undefined;
  return missing >= 1 ? [...head, ...new Array<number>(missing).fill(0), ...tail] : undefined;
}

/** Parses `1:2:3` to numbers; the address may end in dotted octets. */
function parseGroups(text: string, endsAddress: boolean): number[] | undefined {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [i, part] of parts.entries()) {
    const group = parseGroup(part);
    if (group !== undefined) {
      groups.push(group);
      continue;
    }
    const pair = endsAddress && i === parts.length - 1 ? parseIpv4Groups(part) : undefined;
    if (pair === undefined) return undefined;
    groups.push(...pair);
  }
  return groups.length <= 8 ? groups : undefined;
}

/** Parses one to four hexadecimal digits. */
function parseGroup(text: string): number | undefined {
  if (text.length === 0 || text.length > 4) return undefined;
  let group = 0;
  for (let i = 0; i < text.length; i += 1) {
    const digit = hexDigit(text.charCodeAt(i));
    if (digit === noDigit) return undefined;
    group = group * 16 + digit;
  }
  return group;
}

function hexDigit(code: number): number {
  const letter = (code | 0x20) - letterA;
  if (letter >= 0 && letter < 6) return 10 + letter;
  return code >= zero && code < zero + 10 ? code - zero : noDigit;
}

/** Parses `10.0.0.0/8`, `2001:db8::/32` or a single address; undefined for anything else. */
export function parseCidr(text: string): Cidr | undefined {
  const [addressText = "", bitsText, ...rest] = text.split("/");
  if (rest.length > 0 || addressText.includes("%")) return undefined;
  const network = parseIpAddress(addressText);
  if (network === undefined) return undefined;
  if (bitsText === undefined) return { network, prefixBits: 128 };
  if (!/^\d{1,3}$/.test(bitsText)) return undefined;
  const isDotted = !addressText.includes(":");
  const bits = Number(bitsText);
  return bits > (isDotted ? 32 : 128) ? undefined : { network, prefixBits: isDotted ? bits + 96 : bits };
}

/** The same for a text that was checked before. */
export function cidrOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new Error(`${text} is neither an address nor a network`);
  return cidr;
}

export function isWithin(address: IpAddress, { network, prefixBits }: Cidr): boolean {
  for (let i = 0; i < 8; i += 1) {
    const mask = groupMask(prefixBits - i * 16);
    if (((address[i] ?? 0) & mask) !== ((network[i] ?? 0) & mask)) return false;
  }
  return true;
}

function groupMask(bits: number): number {
  if (bits <= 0) return 0;
  return bits >= 16 ? 0xffff : (0xffff << (16 - bits)) & 0xffff;
}

export function isIpv4(address: IpAddress): boolean {
  for (let i = 0; i < 6; i += 1) if (address[i] !== mappedPrefix[i]) return false;
  return true;
}

/** Returns the canonical spelling of an address: dotted for IPv4, RFC 5952 for IPv6. */
export function formatIpAddress(address: IpAddress): string {
  if (isIpv4(address)) {
    const high = address[6] ?? 0;
    const low = address[7] ?? 0;
    return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  }
  const { start, length } = longestZeroRun(address);
  const hex = (groups: readonly number[]) => groups.map((group) => group.toString(16)).join(":");
  if (length < 2) return hex(address);
  return `${hex(address.slice(0, start))}::${hex(address.slice(start + length))}`;
}

/** Returns `10.0.0.0/8` or `2001:db8::/32`, and of a single address the address alone. Bits behind the prefix must be 0. */
export function formatCidr({ network, prefixBits }: Cidr): string {
  const address = formatIpAddress(network);
  if (prefixBits === 128) return address;
  return `${address}/${isIpv4(network) ? prefixBits - 96 : prefixBits}`;
}

function longestZeroRun(address: IpAddress): { start: number; length: number } {
  let longest = { start: 0, length: 0 };
  let start = 0;
  for (let i = 0; i <= 8; i += 1) {
    if (i < 8 && address[i] === 0) continue;
    if (i - start > longest.length) longest = { start, length: i - start };
    start = i + 1;
  }
  return longest;
}

const translators = cidrOf("64:ff9b::/96");
const notTranslated = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16"].map(cidrOf);

/**
 * Returns the address as which another one is counted and blocked: of one that a translator has made of an IPv4 address
 * (RFC 6052), that address, or all of IPv4 would share a quota; else itself. A private, loopback or link-local address has
 * no place there (RFC 6052, 3.1): it would let a client on the internet spend the quota of one in the network.
 */
export function countedAs(address: IpAddress): IpAddress {
  if (!isWithin(address, translators)) return address;
  const inner = [...mappedPrefix, ...address.slice(6)];
  return notTranslated.some((network) => isWithin(inner, network)) ? address : inner;
}

/** Returns the key under which a client is charged: an IPv4 address, or an IPv6 network of `ipv6Prefix` bits. */
export function clientKey(address: IpAddress, ipv6Prefix: number): string {
  if (isIpv4(address) || ipv6Prefix >= 128) return formatIpAddress(address);
  const network = address.map((group, i) => group & groupMask(ipv6Prefix - i * 16));
  return `${formatIpAddress(network)}/${ipv6Prefix}`;
}

/** Returns the same text for hosts that are the same: a name in lower case without a final dot, or an address. */
export function canonicalHost(host: string): string {
  const address = parseIpAddress(host);
  return address === undefined ? host.toLowerCase().replace(/\.$/, "") : formatIpAddress(address);
}

/** Returns a host as in a URL: an IPv6 address in brackets. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** `host` is a name or an IP address, without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}
