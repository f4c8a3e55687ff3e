// The key of a counter: 128 bits as four words, so that a table stores it in a fixed place and compares it without text.
import { clientKey, countedAs, type IpAddress } from "./ip-address.ts";
import type { RulesAbout } from "./rules.ts";

/** The rules about the networks of a client, the smallest network first. */
export interface MatchingRules {
  readonly about: readonly RulesAbout[];
  /** Of the rules in force; another one means that they have changed. */
  readonly version: object;
}

/** 128 bits: an address (IPv4 as ::ffff:a.b.c.d), or a keyed hash. */
export interface FourWords {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
}

export interface KeyWords extends FourWords {
  /** True: the words are an address, masked by the client prefix. False: they are a keyed hash. */
  readonly isAddress: boolean;
}

export class CounterKey implements KeyWords {
  /** Two words of a keyed hash, set by the table's KeyPlacer on first use; the same for all policies. */
  place = 0;
  tag = 0;
  isPlaced = false;
  /** What a store that gateways share calls it; "" until it is needed. */
  storeTag = "";
  /** Set by RulesInForce on first use, because most requests of a connection share their key. */
  rules: MatchingRules | null = null;
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
  readonly isAddress: boolean;
  /** The address as it stands, if it is counted as the IPv4 address in it; else null. */
  readonly literal: CounterKey | null;

  /** The words become signed, because V8 holds a signed word of 32 bits without an object of its own. */
  constructor(a: number, b: number, c: number, d: number, isAddress: boolean, literal: CounterKey | null = null) {
    this.a = a | 0;
    this.b = b | 0;
    this.c = c | 0;
    this.d = d | 0;
    this.isAddress = isAddress;
    this.literal = literal;
  }
}

/**
 * Returns the key of a client: an IPv4 address as ::ffff:a.b.c.d, or an IPv6 network of `ipv6Prefix` bits. Equal for two
 * addresses exactly where their `clientKey` is.
 */
export function addressKey(address: IpAddress, ipv6Prefix: number): CounterKey {
  const a = wordAt(address, 0);
  const b = wordAt(address, 2);
  const c = wordAt(address, 4);
  const d = wordAt(address, 6);
  const isIpv4 = a === 0 && b === 0 && c === 0xffff;
  if (isIpv4 || ipv6Prefix >= 128) return new CounterKey(a, b, c, d, true);
  return new CounterKey(
    a & wordMask(ipv6Prefix),
    b & wordMask(ipv6Prefix - 32),
    c & wordMask(ipv6Prefix - 64),
    d & wordMask(ipv6Prefix - 96),
    true,
  );
}

/** Returns the key by which a client with this address is counted. */
export function countedKey(address: IpAddress, ipv6Prefix: number, counted = countedAs(address)): CounterKey {
  const literal = addressKey(address, ipv6Prefix);
  return counted === address ? literal : new CounterKey(0, 0, 0xffff, wordAt(counted, 6), true, literal);
}

/** Used again, because a store is asked by the text of each new key. */
const keyBytes = Buffer.alloc(16);
const keyWords = new DataView(keyBytes.buffer, keyBytes.byteOffset);

/** Returns 32 hexadecimal digits. */
export function hexOfKey({ a, b, c, d }: FourWords): string {
  keyWords.setInt32(0, a);
  keyWords.setInt32(4, b);
  keyWords.setInt32(8, c);
  keyWords.setInt32(12, d);
  return keyBytes.toString("hex");
}

/** Returns the client whose address is the key: with IPv6, the network of `ipv6Prefix` bits. */
export function clientOfKey(key: FourWords, ipv6Prefix: number): string {
  return clientKey(addressOfKey(key), ipv6Prefix);
}

/** Returns the address that is the key. */
export function addressOfKey({ a, b, c, d }: FourWords): IpAddress {
  return [a, b, c, d].flatMap((word) => [word >>> 16, word & 0xffff]);
}

/** Returns `client:` and an address or a network, or `key:` and the digits of a hash. */
export function counterText(key: KeyWords, ipv6Prefix: number): string {
  return key.isAddress ? `client:${clientOfKey(key, ipv6Prefix)}` : `key:${hexOfKey(key)}`;
}

/** Returns the key of 32 hexadecimal digits, as a hash; null for any other text. */
export function keyOfHex(text: string): CounterKey | null {
  if (!/^[0-9a-f]{32}$/i.test(text)) return null;
  const word = (i: number): number => Number.parseInt(text.slice(8 * i, 8 * i + 8), 16);
  return new CounterKey(word(0), word(1), word(2), word(3), false);
}

function wordAt(address: IpAddress, group: number): number {
  return ((address[group] ?? 0) << 16) | (address[group + 1] ?? 0);
}

export function areEqualWords(x: FourWords, y: FourWords): boolean {
  // The last words differ most often.
  return x.d === y.d && x.c === y.c && x.b === y.b && x.a === y.a;
}

/** Of a word whose first `bits` bits are of the prefix. */
export function wordMask(bits: number): number {
  if (bits <= 0) return 0;
  return bits >= 32 ? -1 : -1 << (32 - bits);
}
