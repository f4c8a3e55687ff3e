// The spellings of a path: those that all backends read in the same way, and a decoder that finds in the others what some
// backends read in another way. All of it takes linear time. A decoded text is an array of characters; each is one byte,
// or `encodedSlash`.

export interface PathText {
  readonly codes: Uint16Array;
  readonly length: number;
}

export const codes = {
  blank: 0x20,
  hash: 0x23,
  percent: 0x25,
  dot: 0x2e,
  slash: 0x2f,
  semicolon: 0x3b,
  question: 0x3f,
  backslash: 0x5c,
  u: 0x75,
  /** Stands for an encoded slash, at which only some backends split. It is larger than any byte. */
  encodedSlash: 0x100,
} as const;

/** By character: the value of the hexadecimal digit; 16 for another character. */
const hexValues = Uint8Array.from({ length: 0x101 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? 16 : value;
});

/** Decodes the first `maxCodes` characters of the path once. */
export function decodeOnce(path: string, maxCodes: number): PathText {
  const from = new Uint16Array(Math.min(path.length, maxCodes));
  for (let i = 0; i < from.length; i += 1) from[i] = path.charCodeAt(i);
  return decodeAgain({ codes: from, length: from.length });
}

/** Decodes a text once more. */
export function decodeAgain({ codes: from, length }: PathText): PathText {
  const into = new Uint16Array(length);
  let end = 0;
  for (let i = 0; i < length; i += 1) {
    const byte = from[i] === codes.percent && i + 2 < length ? escapedByte(from[i + 1] ?? 0, from[i + 2] ?? 0) : -1;
    into[end] = byte === -1 ? (from[i] ?? 0) : byte;
    end += 1;
    if (byte !== -1) i += 2;
  }
  return { codes: into, length: end };
}

/**
 * Decodes until nothing changes; `depth` is the number of decodings that this takes. Does it in one pass: an escape is
 * replaced as soon as its last digit is read, and its replacement may complete another escape. `#depths` has the number
 * of decodings after which each character appears. Also decodes `%uXXXX`, as IIS and JavaScript's `unescape` do.
 */
export class FullDecoding implements PathText {
  codes = new Uint16Array(0);
  length = 0;
  depth = 0;
  /** It had `%uXXXX`, which most backends do not decode. */
  hasUnicodeEscape = false;
  #depths = new Uint8Array(0);

  /** Replaces the text by that of another path. */
  decode(path: string): void {
    if (path.length > this.codes.length) {
      this.codes = new Uint16Array(Math.max(path.length, 2048));
      this.#depths = new Uint8Array(this.codes.length);
    }
    const { codes: into } = this;
    const depths = this.#depths;
    let end = 0;
    this.depth = 0;
    this.hasUnicodeEscape = false;
    for (let i = 0; i < path.length; i += 1) {
      into[end] = path.charCodeAt(i);
      depths[end] = 0;
      end += 1;
      if (end >= 3 && into[end - 3] === codes.percent) end = this.#replaceEscapes(end);
      else if (end >= 6 && into[end - 6] === codes.percent) end = this.#replaceEscapes(end);
    }
    this.length = end;
  }

  /** Replaces the escape that ends before `end`, and those that this completes. Returns the new end of the text. */
  #replaceEscapes(end: number): number {
    const { codes: into } = this;
    const depths = this.#depths;
    let last = end - 1;
    for (;;) {
      const length = last >= 2 && into[last - 2] === codes.percent ? 3 : 6;
      const start = last + 1 - length;
      const code = length === 3 ? escapedByte(into[last - 1] ?? 0, into[last] ?? 0) : this.#unicodeAt(start);
      if (code === -1) return last + 1;
      let depth = 0;
      for (let i = start; i <= last; i += 1) depth = Math.max(depth, depths[i] ?? 0);
      into[start] = code;
      depths[start] = Math.min(depth + 1, 0xfe);
      if (depth + 1 > this.depth) this.depth = depth + 1;
      last = start;
    }
  }

  /** Returns the character of `%uXXXX`; -1 if something else begins there. */
  #unicodeAt(start: number): number {
    const { codes: into } = this;
    if (start < 0 || into[start] !== codes.percent || ((into[start + 1] ?? 0) | 0x20) !== codes.u) return -1;
    const high = hexByte(into[start + 2] ?? 0, into[start + 3] ?? 0);
    const low = hexByte(into[start + 4] ?? 0, into[start + 5] ?? 0);
    if (high === -1 || low === -1) return -1;
    this.hasUnicodeEscape = true;
    return asciiOf(high, low);
  }
}

/**
 * Returns what IIS makes of a UTF-16 unit: full-width forms and some slashes become the ASCII characters that they
 * resemble. For all other units above 0xff, returns 0xff, which no name contains.
 */
function asciiOf(high: number, low: number): number {
  const isSlash = (high === 0x20 && low === 0x44) || (high === 0x22 && low === 0x15);
  // ff01 to ff5e are 21 to 7e.
  const isFullWidth = high === 0xff && low >= 0x01 && low <= 0x5e;
  const code = isFullWidth ? low + 0x20 : high === 0 ? low : 0xff;
  return isSlash || code === codes.slash ? codes.encodedSlash : code;
}

/** Returns the character of an escape; -1 if the two are not hexadecimal digits. */
function escapedByte(high: number, low: number): number {
  const byte = hexByte(high, low);
  return byte === codes.slash ? codes.encodedSlash : byte;
}

/** Returns -1 if the two are not hexadecimal digits. */
function hexByte(high: number, low: number): number {
  const upper = hexValues[high] ?? 16;
  const lower = hexValues[low] ?? 16;
  return upper === 16 || lower === 16 ? -1 : upper * 16 + lower;
}

/** By character: what some backends do at it. A table is fast; each character of a path is looked up twice. */
const [ordinary, splitting, ending, control] = [0, 1, 2, 3] as const;
const kinds = Uint8Array.from({ length: 0x101 }, (_, code) => kindOf(code));

function kindOf(code: number): number {
  if (code < 0x20 || code === 0x7f) return control;
  if (code === codes.slash || code === codes.backslash || code === codes.encodedSlash) return splitting;
  return code === codes.semicolon || code === codes.question || code === codes.hash ? ending : ordinary;
}

/** Returns whether some backends split a path at this character. */
export function isSeparator(code: number): boolean {
  return kinds[code] === splitting;
}

/** Returns whether some backends end a segment at this character. */
function endsSegment(code: number): boolean {
  return kinds[code] === ending || kinds[code] === control;
}

/** Returns whether Windows drops this character at the end of a name, or Python's http.server at the end of a target. */
export function isDroppedAtEnd(code: number): boolean {
  return code === codes.dot || code === codes.blank || code === 0x85 || code === 0xa0;
}

/** Returns whether a segment that begins with this character is one in every reading: it neither vanishes nor splits. */
export function beginsName(code: number): boolean {
  return kinds[code] === ordinary && !isDroppedAtEnd(code) && code !== codes.percent;
}

/**
 * Returns whether some backends may read other characters, or another place, than the text shows: some end a path at a
 * control byte, and some decode an overlong UTF-8 form to an ASCII character. Backends also differ in what they decode,
 * split and drop before `..` removes a segment, so `..` in an unusual path may lead anywhere; legitimate clients
 * resolve it before they send the path. Decoding the text again removes none of this.
 */
export function isDeceptive({ codes: text, length }: PathText): boolean {
  for (let i = 0; i < length; i += 1) {
    const code = text[i] ?? 0;
    if (kinds[code] === control) return true;
    if (code === codes.dot) {
      if (isParentSegment(text, i, length)) return true;
    } else if (code >= 0xc0 && code <= 0xf0 && isOverlong(text, i, length)) return true;
  }
  return false;
}

function isParentSegment(text: Uint16Array, at: number, length: number): boolean {
  if (at + 1 >= length || text[at + 1] !== codes.dot) return false;
  if (at > 0 && !isSeparator(text[at - 1] ?? 0)) return false;
  // Some backends drop blanks and dots at its end.
  let next = at + 2;
  while (next < length && (text[next] === codes.blank || text[next] === codes.dot)) next += 1;
  return next === length || isSeparator(text[next] ?? 0) || endsSegment(text[next] ?? 0);
}

function isOverlong(text: Uint16Array, at: number, length: number): boolean {
  const first = text[at];
  const second = at + 1 < length ? (text[at + 1] ?? 0) : 0;
  if (first === 0xc0 || first === 0xc1) return continues(second);
  const third = at + 2 < length ? (text[at + 2] ?? 0) : 0;
  if (first === 0xe0) return second >= 0x80 && second <= 0x9f && continues(third);
  const fourth = at + 3 < length ? (text[at + 3] ?? 0) : 0;
  return first === 0xf0 && second >= 0x80 && second <= 0x8f && continues(third) && continues(fourth);
}

function continues(code: number): boolean {
  return code >= 0x80 && code <= 0xbf;
}

/**
 * The letters whose other case is ASCII, because some backends compare paths without regard to case in all of Unicode:
 * dotless i, I with a dot, long s, the Kelvin sign, sharp s, and the ligatures of f and s. By their bytes in UTF-8.
 */
const asciiCases: ReadonlyMap<number, Buffer> = new Map(
  [..."\u0131\u0130\u017f\u212a\u00df\u1e9e\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"].map((letter) => [
    Buffer.from(`${letter}\0`).readUIntBE(0, 3),
    Buffer.from(letter.toLowerCase().toUpperCase().toLowerCase().replace("\u0307", "")),
  ]),
);

/** Replaces the letters whose other case is ASCII. No replacement is longer. */
export function withAsciiLetters(text: PathText): PathText {
  const { codes: from, length } = text;
  let into: Uint16Array | null = null;
  let end = 0;
  for (let i = 0; i < length; ) {
    const first = from[i] ?? 0;
    const size = first < 0xc3 || first > 0xef ? 1 : first < 0xe0 ? 2 : 3;
    const third = size === 3 ? (from[i + 2] ?? 0) : 0;
    const isWhole = size > 1 && i + size <= length;
    const ascii = isWhole ? asciiCases.get((first << 16) | ((from[i + 1] ?? 0) << 8) | third) : undefined;
    if (ascii !== undefined) {
      into ??= from.slice(0, length);
      for (let j = 0; j < ascii.length; j += 1) into[end + j] = ascii[j] ?? 0;
    } else if (into !== null) into[end] = first;
    end += ascii?.length ?? 1;
    i += ascii === undefined ? 1 : size;
  }
  return into === null ? text : { codes: into, length: end };
}

/**
 * An escape of any byte except control bytes, # % . / ; ? \ and those that begin overlong UTF-8: c0, c1, and e0 and f0
 * before some bytes.
 */
const harmlessEscape =
  "%(?:2[0-246-9a-dA-D]|3[0-9ac-eAC-E]|[46][0-9a-fA-F]|5[0-9abd-fABD-F]|7[0-9a-eA-E]|[89abdABD][0-9a-fA-F]|" +
  "[cC][2-9a-fA-F]|[efEF][1-9a-fA-F]|[eE]0%[abAB][0-9a-fA-F]|[fF]0%[9abAB][0-9a-fA-F])";

// A path of these characters, without empty or dot segments, has one reading, because case is always folded; unless it
// has a `droppedEnd`.
export const plainPath = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)*\/?$/;
// The same with harmless escapes, such as blanks and the letters of any language: no backend reads them as a separator,
// a dot or the end of a path.
export const plainWithEscapes = new RegExp(
  `^(?:/(?:[A-Za-z0-9_~!$&'()*+,=:@-]|${harmlessEscape})(?:[A-Za-z0-9._~!$&'()*+,=:@-]|${harmlessEscape})*)*/?$`,
);
// The same with dot segments: all backends resolve them in the same way, or not at all.
export const plainPathWithDots = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@-]+)*\/?$/;
// A name with a dot or a blank at its end, which Windows drops.
export const droppedEnd = /(?:\.|%20)(?:\/|$)/;
/** The same without dot segments, for a plain path. */
export const nameWithDroppedEnd = /[^/.]\.+(?:\/|$)/;
/** After two slashes, the user and the host, which for Node's `url.parse` end at an escape: the path begins with it. */
export const hostBeforeEscape = /^[/\\]{2}(?:[^/\\#]*@)?[^/\\@%#]*(?=%)/;

/** States of the comparison of a segment with all names. After `mismatch`, no name can match. */
const mismatch = 0;
const segmentStart = 1;

/**
 * Finds names among the segments of a path. An automaton compares them character by character, without regard to case,
 * so that no part of a path has to be copied.
 */
export class SegmentNames {
  /** The state before the first character of a segment. */
  readonly start = segmentStart;
  readonly #numbers = new Map<string, number>();
  /** By character: its column in the table; 0 for one that is in no name. */
  readonly #columns = new Uint8Array(0x101);
  readonly #width: number;
  /** By state and column: the next state. */
  readonly #table: Uint32Array;
  /** By state: the number of the name that ends in it, or 0. */
  readonly #ends: Uint32Array;

  /** `keepsCase`: a name is found in its own case alone. Otherwise, `segments` are in lower case. */
  constructor(segments: readonly string[], keepsCase = false) {
    const names = [...new Set(segments)];
    const text = names.join("");
    const alphabet = [...new Set(text)];
    for (let code = 0; code < 0x100; code += 1) {
      const character = String.fromCharCode(code);
      this.#columns[code] = alphabet.indexOf(keepsCase ? character : character.toLowerCase()) + 1;
    }
    this.#width = alphabet.length + 1;
    this.#table = new Uint32Array((text.length + 2) * this.#width);
    this.#ends = new Uint32Array(text.length + 2);
    let states = 2;
    for (const [i, name] of names.entries()) {
      let state = segmentStart;
      for (const character of name) {
        const at = state * this.#width + alphabet.indexOf(character) + 1;
        if (this.#table[at] === mismatch) {
          this.#table[at] = states;
          states += 1;
        }
        state = this.#table[at] ?? mismatch;
      }
      this.#ends[state] = i + 1;
      this.#numbers.set(name, i + 1);
    }
  }

  numberOf(segment: string): number {
    return this.#numbers.get(segment) ?? 0;
  }

  /** Returns the state after another character of a segment. */
  advance(state: number, code: number): number {
    const column = this.#columns[code] ?? 0;
    return column === 0 ? mismatch : (this.#table[state * this.#width + column] ?? mismatch);
  }

  /** Returns whether no name begins in this way. */
  isMismatch(state: number): boolean {
    return state === mismatch;
  }

  /** Returns the number of the name that ends in this state; 0 if none does. */
  nameIn(state: number): number {
    return this.#ends[state] ?? 0;
  }
}

/** Returns the names in a prefix. */
export function segmentsOf(prefix: string): string[] {
  return prefix.split("/").filter((segment) => segment !== "");
}

/** A sequence of names. `children`: the same with one more, by its number. */
interface NameNode<N> {
  readonly children: ReadonlyMap<number, N>;
}

/**
 * Calls `onFound` for `root`, and for each node below it whose names all occur in the text in order, possibly with others
 * between them. A path that backends may read in many ways, such as one with `..`, has some of its segments in this order in
 * each reading. `text` is fully decoded, and split wherever some backend splits. Takes linear time: visits each node at most
 * once.
 */
export function searchNames<N extends NameNode<N>>(
  text: PathText,
  root: N,
  names: SegmentNames,
  onFound: (node: N) => void,
): void {
  /** The children of found nodes that have not been found yet, by the number of their name. */
  const awaited: (N[] | undefined)[] = [];
  const find = (node: N): void => {
    onFound(node);
    for (const [name, child] of node.children) {
      const nodes = awaited[name];
      if (nodes === undefined) awaited[name] = [child];
      else nodes.push(child);
    }
  };
  const findNext = (name: number): void => {
    const nodes = awaited[name];
    awaited[name] = undefined;
    for (const node of nodes ?? []) find(node);
  };
  find(root);
  let state = names.start;
  /** Before the dots and blanks at the end of the segment. */
  let trimmed = names.start;
  let isNameOver = false;
  for (let i = 0; i <= text.length; i += 1) {
    const code = i < text.length ? (text.codes[i] ?? 0) : codes.slash;
    if (isSeparator(code)) {
      findNext(names.nameIn(state));
      if (trimmed !== state) findNext(names.nameIn(trimmed));
      state = names.start;
      trimmed = names.start;
      isNameOver = false;
    } else if (!isNameOver) {
      if (endsSegment(code)) {
        isNameOver = true;
        continue;
      }
      if (!names.isMismatch(state)) state = names.advance(state, code);
      if (isDroppedAtEnd(code)) continue;
      trimmed = state;
      isNameOver = names.isMismatch(state);
    }
  }
}
