// Finds all networks of a table that contain an address, the smallest first. Networks are added and removed one at a time.
// For each length of a prefix in use there is a hash table of the masked addresses, so the time of a search does not depend
// on how many networks there are. The first bits of the address say in which of these tables a network may be.
import { addressKey, areEqualWords, type FourWords, wordMask } from "./counter-key.ts";
import type { Cidr } from "./ip-address.ts";

/** All IPv4 addresses begin with them. */
const mappedWord = 0xffff;
const mappedBits = 96;

export class NetworkTable<T> {
  readonly #ipv4 = new Family<T>(ipv4Stems);
  readonly #ipv6 = new Family<T>(ipv6Stems);

  get isEmpty(): boolean {
    return this.#ipv4.isEmpty && this.#ipv6.isEmpty;
  }

  /** How many bits of an IPv6 address are kept: networks with a longer prefix contain no client. */
  set ipv6Prefix(bits: number) {
    this.#ipv6.maxBits = bits;
  }

  get(cidr: Cidr): T | undefined {
    const words = wordsOf(cidr);
    return this.#familiesOf(words, cidr.prefixBits)[0]?.get(words, cidr.prefixBits);
  }

  set(cidr: Cidr, value: T): void {
    const words = wordsOf(cidr);
    for (const family of this.#familiesOf(words, cidr.prefixBits)) family.set(words, cidr.prefixBits, value);
  }

  delete(cidr: Cidr): void {
    const words = wordsOf(cidr);
    for (const family of this.#familiesOf(words, cidr.prefixBits)) family.delete(words, cidr.prefixBits);
  }

  /** Returns the values of all networks that contain the address; undefined if none does. */
  find(address: FourWords): T[] | undefined {
    return (isMapped(address) ? this.#ipv4 : this.#ipv6).find(address);
  }

  /** A large network, such as ::/0, may contain all IPv4 addresses, too. */
  #familiesOf(words: FourWords, bits: number): readonly Family<T>[] {
    if (bits >= mappedBits) return [isMapped(words) ? this.#ipv4 : this.#ipv6];
    const containsMapped = areEqualWords(words, masked({ a: 0, b: 0, c: mappedWord, d: 0 }, bits));
    return containsMapped ? [this.#ipv6, this.#ipv4] : [this.#ipv6];
  }
}

function isMapped({ a, b, c }: FourWords): boolean {
  return a === 0 && b === 0 && c === mappedWord;
}

function wordsOf({ network, prefixBits }: Cidr): FourWords {
  return masked(addressKey(network, 128), prefixBits);
}

function masked({ a, b, c, d }: FourWords, bits: number): FourWords {
  return {
    a: a & wordMask(bits),
    b: b & wordMask(bits - 32),
    c: c & wordMask(bits - 64),
    d: d & wordMask(bits - 96),
  };
}

/** How the addresses of a family are divided into `stems` groups, each of which has few networks. */
interface Stems {
  of(address: FourWords): number;
  /** How many stems a network has addresses in; the first is that of its first address. */
  width(bits: number): number;
}

const stemBits = 14;
const stems = 1 << stemBits;

/** By the first bits of the address. */
const ipv4Stems: Stems = {
  of: ({ d }) => d >>> (32 - stemBits),
  width: (bits) => 2 ** Math.max(0, stemBits - Math.max(0, bits - mappedBits)),
};

/** By a hash of the first 32 bits, because the first 14 are the same for most addresses. Larger networks are in all. */
const ipv6Stems: Stems = {
  of: ({ a }) => Math.imul(a, 0x9e3779b1) >>> (32 - stemBits),
  width: (bits) => (bits < 32 ? stems : 1),
};

/** The flag that all further levels share. */
const lastFlag = 31;

/** The IPv4 or the IPv6 networks. */
class Family<T> {
  readonly #stems: Stems;
  /** The longest prefix first. */
  #levels: Level<T>[] = [];
  #maxBits = 128;
  /** By stem: a flag for each level that has a network there, and maybe for others. */
  #flags = new Int32Array(0);
  /** How many networks were removed whose flags may still be set. */
  #stale = 0;

  constructor(of: Stems) {
    this.#stems = of;
  }

  get isEmpty(): boolean {
    return this.#levels.length === 0;
  }

  set maxBits(bits: number) {
    this.#maxBits = bits;
    this.#flagAll();
  }

  get(words: FourWords, bits: number): T | undefined {
    return this.#levels.find((level) => level.bits === bits)?.find(words.a, words.b, words.c, words.d);
  }

  set(words: FourWords, bits: number, value: T): void {
    let index = this.#levels.findIndex((level) => level.bits <= bits);
    if (index === -1) index = this.#levels.length;
    const known = this.#levels[index];
    const level = known?.bits === bits ? known : new Level<T>(bits);
    level.set(words, value);
    if (level === known) {
      this.#flag(words, index);
      return;
    }
    this.#levels.splice(index, 0, level);
    this.#flagAll();
  }

  delete(words: FourWords, bits: number): void {
    const index = this.#levels.findIndex((level) => level.bits === bits);
    const level = this.#levels[index];
    if (level?.delete(words) !== true) return;
    this.#stale += 1;
    if (level.size === 0) this.#levels.splice(index, 1);
    if (level.size === 0 || this.#stale > this.#size) this.#flagAll();
  }

  find(address: FourWords): T[] | undefined {
    let found: T[] | undefined;
    const levels = this.#levels;
    const { a, b, c, d } = address;
    let flags = levels.length === 0 ? 0 : (this.#flags[this.#stems.of(address)] ?? 0);
    while (flags !== 0) {
      const index = Math.clz32(flags);
      flags &= ~flagOf(index);
      const end = index === lastFlag ? levels.length : index + 1;
      for (let i = index; i < end; i += 1) {
        const value = levels[i]?.find(a, b, c, d);
        if (value === undefined) continue;
        if (found === undefined) found = [value];
        else found.push(value);
      }
    }
    return found;
  }

  get #size(): number {
    return this.#levels.reduce((sum, { size }) => sum + size, 0);
  }

  #flagAll(): void {
    this.#stale = 0;
    this.#flags = new Int32Array(this.isEmpty ? 0 : stems);
    for (const [index, level] of this.#levels.entries()) level.each((words) => this.#flag(words, index));
  }

  #flag(words: FourWords, index: number): void {
    const bits = this.#levels[index]?.bits ?? 0;
    // Addresses have no more bits, so nothing is found there.
    if (bits > this.#maxBits) return;
    const width = this.#stems.width(bits);
    const start = width === stems ? 0 : this.#stems.of(words);
    for (let stem = start; stem < start + width; stem += 1)
      this.#flags[stem] = (this.#flags[stem] ?? 0) | flagOf(index);
  }
}

/** The longest prefix has the first bit, so that it is found first. */
function flagOf(index: number): number {
  return 0x8000_0000 >>> Math.min(index, lastFlag);
}

/** The networks with one length of prefix, in a table with open addressing that is at most half full. */
class Level<T> {
  readonly bits: number;
  size = 0;
  readonly #a: number;
  readonly #b: number;
  readonly #c: number;
  readonly #d: number;
  /** Four words for each index. */
  #words = new Int32Array(4 * leastEntries);
  /** Undefined: the entry is free. */
  #values: (T | undefined)[] = Array.from({ length: leastEntries });
  /** The number of entries, a power of two, less 1. */
  #mask = leastEntries - 1;

  constructor(bits: number) {
    this.bits = bits;
    this.#a = wordMask(bits);
    this.#b = wordMask(bits - 32);
    this.#c = wordMask(bits - 64);
    this.#d = wordMask(bits - 96);
  }

  /** The words need not be masked. */
  find(a: number, b: number, c: number, d: number): T | undefined {
    return this.#values[this.#indexOf(a & this.#a, b & this.#b, c & this.#c, d & this.#d)];
  }

  /** The words are masked. */
  set(words: FourWords, value: T): void {
    if (2 * (this.size + 1) > this.#values.length) this.#grow();
    this.#put(words, value);
  }

  /** Returns whether it was there. */
  delete(words: FourWords): boolean {
    let free = this.#indexOf(words.a, words.b, words.c, words.d);
    if (this.#values[free] === undefined) return false;
    this.size -= 1;
    // Those behind it move up, or they would not be found any more.
    for (let index = this.#next(free); this.#values[index] !== undefined; index = this.#next(index)) {
      const wanted = this.#hashAt(index) & this.#mask;
      const isBetween = ((index - wanted) & this.#mask) < ((index - free) & this.#mask);
      if (isBetween) continue;
      this.#words.copyWithin(4 * free, 4 * index, 4 * index + 4);
      this.#values[free] = this.#values[index];
      free = index;
    }
    this.#values[free] = undefined;
    return true;
  }

  each(visit: (words: FourWords, value: T) => void): void {
    const words = this.#words;
    for (const [index, value] of this.#values.entries()) {
      if (value === undefined) continue;
      const at = 4 * index;
      const [a = 0, b = 0, c = 0, d = 0] = [words[at], words[at + 1], words[at + 2], words[at + 3]];
      visit({ a, b, c, d }, value);
    }
  }

  /** Where a masked network is, or the free entry where it would be. */
  #indexOf(a: number, b: number, c: number, d: number): number {
    const words = this.#words;
    const values = this.#values;
    const mask = this.#mask;
    for (let index = hashOf(a, b, c, d) & mask; ; index = (index + 1) & mask) {
      if (values[index] === undefined) return index;
      const at = 4 * index;
      if (words[at + 3] === d && words[at + 2] === c && words[at + 1] === b && words[at] === a) return index;
    }
  }

  #put({ a, b, c, d }: FourWords, value: T): void {
    const index = this.#indexOf(a, b, c, d);
    if (this.#values[index] === undefined) this.size += 1;
    this.#values[index] = value;
    const at = 4 * index;
    this.#words[at] = a;
    this.#words[at + 1] = b;
    this.#words[at + 2] = c;
    this.#words[at + 3] = d;
  }

  #grow(): void {
    const before: [FourWords, T][] = [];
    this.each((words, value) => before.push([words, value]));
    this.#words = new Int32Array(2 * this.#words.length);
    this.#values = Array.from({ length: 2 * this.#values.length });
    this.#mask = this.#values.length - 1;
    this.size = 0;
    for (const [words, value] of before) this.#put(words, value);
  }

  #next(index: number): number {
    return (index + 1) & this.#mask;
  }

  #hashAt(index: number): number {
    const words = this.#words;
    const at = 4 * index;
    return hashOf(words[at] ?? 0, words[at + 1] ?? 0, words[at + 2] ?? 0, words[at + 3] ?? 0);
  }
}

const leastEntries = 8;

/** Whoever adds networks is trusted, so the hash needs no secret. */
function hashOf(a: number, b: number, c: number, d: number): number {
  const mixed =
    Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b) ^ Math.imul(c, 0xc2b2ae35) ^ Math.imul(d, 0x27d4eb2f);
  return mixed ^ (mixed >>> 15) ^ (mixed >>> 24);
}
