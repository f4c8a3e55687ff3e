// Compares the keys of a table with what somebody searches for, without making a text for each: the beginning of an address,
// of the name of a listed token or of a hash, or a network.
import { addressKey, wordMask } from "../core/counter-key.ts";
import { parseCidr } from "../core/ip-address.ts";
import { isAddressKey, keyLine } from "./table/layout.ts";
import type { TopQuery } from "./table/top-keys.ts";

interface SearchContext {
  /** The text of an address key, as it is shown. */
  readonly addressText: (words: {
    readonly a: number;
    readonly b: number;
    readonly c: number;
    readonly d: number;
  }) => string;
  /** The first words of the hashes whose name begins with a text, by slot. */
  readonly hashesNamed: (text: string) => ReadonlyMap<number, ReadonlySet<number>>;
}

type Matches = NonNullable<TopQuery["matches"]>;

/** Returns null for an empty text: all keys are listed. */
export function createKeySearch(text: string, context: SearchContext): Matches | null {
  if (text === "") return null;
  const cidr = text.includes("/") ? parseCidr(text) : undefined;
  const ofAddress = cidr === undefined ? startsAddress(text, context) : isIn(cidr.network, cidr.prefixBits);
  const ofHash = startsHash(text);
  const named = context.hashesNamed(text);
  return (w, line, slot) => {
    if (isAddressKey(w[line + keyLine.about] as number)) return ofAddress(w, line);
    return ofHash(w, line) || named.get(slot)?.has(w[line] as number) === true;
  };
}

type MatchesKey = (w: Int32Array, line: number) => boolean;

function isIn(network: Parameters<typeof addressKey>[0], prefixBits: number): MatchesKey {
  const { a, b, c, d } = addressKey(network, 128);
  const [maskA, maskB, maskC, maskD] = [0, 32, 64, 96].map((from) => wordMask(prefixBits - from)) as [
    number,
    number,
    number,
    number,
  ];
  return (w, line) =>
    (((w[line] as number) ^ a) & maskA) === 0 &&
    (((w[line + 1] as number) ^ b) & maskB) === 0 &&
    (((w[line + 2] as number) ^ c) & maskC) === 0 &&
    (((w[line + 3] as number) ^ d) & maskD) === 0;
}

function startsAddress(text: string, { addressText }: SearchContext): MatchesKey {
  const isDotted = /^[0-9.]+$/.test(text);
  const mayBeIpv6 = /^[0-9a-f:/.]+$/.test(text);
  const prefix = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const first = startsIpv6(text);
  return (w, line) => {
    if (w[line] === 0 && w[line + 1] === 0 && w[line + 2] === 0xffff)
      return isDotted && startsIpv4(w[line + 3] as number, prefix);
    if (!mayBeIpv6 || !first(w, line)) return false;
    const [a, b, c, d] = [w[line], w[line + 1], w[line + 2], w[line + 3]] as [number, number, number, number];
    return addressText({ a, b, c, d }).startsWith(text);
  };
}

const zero = 0x30;
const dot = 0x2e;

/** Whether the four octets of a word, in decimal, begin with these characters. */
function startsIpv4(word: number, prefix: Uint8Array): boolean {
  let at = 0;
  const is = (code: number): boolean => {
    at += 1;
    return prefix[at - 1] === code;
  };
  for (let shift = 24; shift >= 0 && at < prefix.length; shift -= 8) {
    const octet = (word >>> shift) & 0xff;
    if (octet >= 100 && !is(zero + Math.floor(octet / 100))) return false;
    if (octet >= 10 && at < prefix.length && !is(zero + (Math.floor(octet / 10) % 10))) return false;
    if (at < prefix.length && !is(zero + (octet % 10))) return false;
    if (at < prefix.length && (shift === 0 || !is(dot))) return false;
  }
  return true;
}

/** Compares the groups before the first `::` or an unfinished group, which most keys differ in. */
function startsIpv6(text: string): MatchesKey {
  const whole = text.split("::")[0] ?? "";
  const groups = whole.split(":").map((group) => Number.parseInt(group, 16));
  if (!text.includes("::")) groups.pop();
  if (groups.some(Number.isNaN)) return () => true;
  return (w, line) =>
    groups.every((group, i) => (((w[line + (i >> 1)] as number) >>> (i % 2 === 0 ? 16 : 0)) & 0xffff) === group);
}

/** Whether the digits of a hash begin with these. */
function startsHash(text: string): MatchesKey {
  if (!/^[0-9a-f]{1,32}$/i.test(text)) return () => false;
  const digits = text.padEnd(32, "0");
  const words = [0, 8, 16, 24].map((from) => Number.parseInt(digits.slice(from, from + 8), 16) | 0);
  const masks = words.map((_, i) => wordMask(4 * text.length - 32 * i));
  return (w, line) => words.every((word, i) => (((w[line + i] as number) ^ word) & (masks[i] as number)) === 0);
}
