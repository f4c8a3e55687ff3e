// Finds the route of a path in every way in which a backend may read it (decode it, fold case, collapse slashes,
// resolve dots, drop parameters): a path that may be under a route is charged, and one that may be in two places is
// ambiguous. The path is forwarded unchanged.

export type PathReading =
  /** Under this route in every reading. */
  | { readonly kind: "route"; readonly route: string }
  /** Under no route in any reading, and below the base path in all of them. */
  | { readonly kind: "unmatched" }
  /** Not below the base path in any reading. */
  | { readonly kind: "outside" }
  /** The readings differ. `route` is one of those that the path may be under; null if it is under none. */
  | { readonly kind: "ambiguous"; readonly route: string | null };

export type ReadPath = (path: string) => PathReading;

// A path of these characters, without empty or dot segments, has one reading, because case is always folded.
const plainPath = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)*\/?$/;
// The same with dot segments: all backends resolve them in the same way, or not at all.
const plainPathWithDots = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@-]+)*\/?$/;
const maxDecodings = 4;
/** A longer path in an unusual spelling is ambiguous, because finding all its readings would take too long. */
const maxOddLength = 512;
const maxOddSegments = 16;
/** A longer target is refused anyway; its path is only read to find whether it is charged. */
const maxPathLength = 8192;

/** A route; null below the base path outside of all routes; undefined outside of the base path. */
type Place = string | null | undefined;

/**
 * `routes` are prefixes below `basePath`; each begins and ends with a slash. The path is the target before the first
 * `?`.
 */
export function createPathReader(routes: readonly string[], basePath: string): ReadPath {
  const base = basePath === "/" ? "" : basePath.toLowerCase();
  const prefixes = routes.map((route) => ({ prefix: `${base}${route.toLowerCase()}`, route }));
  const placeOf = (reading: string): Place => {
    const folded = reading.toLowerCase();
    for (const { prefix, route } of prefixes) {
      // "/v1" is the root of "/v1/" to a backend that redirects or ignores the slash.
      if (folded.startsWith(prefix) || (folded.length === prefix.length - 1 && prefix.startsWith(folded))) return route;
    }
    return folded.startsWith(`${base}/`) || (base !== "" && folded === base) ? null : undefined;
  };
  const depth = Math.max(...prefixes.map(({ prefix }) => prefix.split("/").length - 2));
  const read: ReadPath = (path) => {
    if (plainPath.test(path)) return readingOf(placeOf(path));
    if (plainPathWithDots.test(path)) return compare(readDots(path), placeOf);
    const { texts, isDeceptive } = decodings(path);
    const beginnings = texts.map((text) => beginningOf(text, depth));
    if (!isDeceptive && beginnings.every((text) => text !== undefined)) {
      return compare(beginnings.flatMap(readings), placeOf);
    }
    const within = prefixes.find(({ prefix }) => texts.some((text) => mayBeUnder(prefix, text)));
    return { kind: "ambiguous", route: within?.route ?? null };
  };
  return (path) => {
    const reading = read(path);
    return twoSlashes.test(path) ? compareWithAuthority(reading, read(withoutAuthority(path))) : reading;
  };
}

const twoSlashes = /^(?:[/\\]|%2f|%5c){2}/i;

/** Some backends read the text after two slashes as a host, as `new URL(target, base)` does; the path follows it. */
function withoutAuthority(path: string): string {
  return path.replace(/^(?:[/\\]|%2f|%5c)+.*?(?=[/\\]|%2f|%5c|$)/is, "") || "/";
}

/** Compares the reading as a path with the reading as a host and a path: the second must not be under another route. */
function compareWithAuthority(reading: PathReading, other: PathReading): PathReading {
  const own = "route" in reading ? reading.route : null;
  const route = "route" in other ? other.route : null;
  return route === null || route === own ? reading : { kind: "ambiguous", route: own ?? route };
}

function readingOf(place: Place): PathReading {
  if (place === undefined) return { kind: "outside" };
  return place === null ? { kind: "unmatched" } : { kind: "route", route: place };
}

function compare(readings: readonly string[], placeOf: (reading: string) => Place): PathReading {
  const seen = new Set(readings.map(placeOf));
  const [first] = seen;
  // Under a route in one reading and elsewhere in another is ambiguous too.
  if (seen.size === 1) return readingOf(first);
  return { kind: "ambiguous", route: [...seen].find((place) => typeof place === "string") ?? null };
}

/** Returns whether the names of the prefix occur in the text in their order, so that `..` could lead to the prefix. */
function mayBeUnder(prefix: string, text: string): boolean {
  const names = prefix.split("/").filter((name) => name !== "");
  for (const segment of text.split(/[/\\\u0100]/)) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: some backends end a segment at one
    if (segment.replace(/[;?#\x00-\x1f\x7f].*$/s, "").toLowerCase() === names[0]) names.shift();
  }
  return names.length === 0;
}

/** Percent-decodes the path once, twice, … until nothing changes. Each character stays one byte. */
function decodings(path: string): { texts: string[]; isDeceptive: boolean } {
  if (path.length > maxPathLength) return { texts: [path], isDeceptive: true };
  const texts: string[] = [];
  let isDeceptive = false;
  for (let text = path, depth = 0; ; depth += 1) {
    // No legitimate client encodes so many times.
    if (depth > maxDecodings) return { texts, isDeceptive: true };
    const decoded = text.replace(/%([0-9a-f]{2})/gi, decodeByte);
    if (depth === 0 || decoded !== text) texts.push(decoded);
    isDeceptive ||= hidesCharacters(decoded) || hasParentSegment(decoded);
    if (decoded === text) return { texts, isDeceptive };
    text = decoded;
  }
}

/** Stands for an encoded slash, at which only some backends split; a character that no byte has. */
const encodedSlash = "\u0100";

function decodeByte(_: string, hex: string): string {
  const code = Number.parseInt(hex, 16);
  return code === 0x2f ? encodedSlash : String.fromCharCode(code);
}

/** Some backends end a path at a control byte, and some decode an overlong UTF-8 form to an ASCII character. */
function hidesCharacters(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about them
  return /[\x00-\x1f\x7f]|[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}/.test(text);
}

/**
 * Backends differ in what they decode, split and drop before `..` removes a segment, so in an unusual path it may lead
 * anywhere. Legitimate clients resolve it before they send.
 */
function hasParentSegment(text: string): boolean {
  return /(?:^|[/\\\u0100])\.\.(?:[/\\\u0100;?#]|$)/.test(text);
}

/**
 * Returns the part of a decoded path that determines its route: it has no `..`, so the route ends at the latest with
 * the `depth`th segment that begins like a name. Undefined if that part is too long to find all its readings.
 */
function beginningOf(text: string, depth: number): string | undefined {
  let names = 0;
  for (let start = 0, segments = 0; ; segments += 1) {
    const slash = text.indexOf("/", start);
    const end = slash === -1 ? text.length : slash;
    if (/[A-Za-z0-9_~-]/.test(text[start] ?? "") && start < end) names += 1;
    const isEnough = names === depth || slash === -1;
    if (isEnough) return end > maxOddLength ? undefined : text.slice(0, end + 1);
    if (segments >= maxOddSegments) return undefined;
    start = end + 1;
  }
}

/**
 * Returns the readings of the beginning of a decoded path. Case, empty segments and single dots are always folded,
 * which can only add charged paths. Everything else may move a path elsewhere, so it is read in both ways.
 */
function readings(decoded: string): string[] {
  let variants = [decoded];
  const fork = (pattern: RegExp, change: (text: string) => string): void => {
    if (pattern.test(decoded)) variants = variants.flatMap((text) => [text, change(text)]);
  };
  fork(/[?#]/, (text) => text.replace(/[?#].*$/s, "")); // decoded first, then cut
  // Parameters end at a slash, so they are dropped both before and after other characters become slashes.
  fork(/;/, dropParameters);
  fork(/\u0100/, (text) => text.replaceAll(encodedSlash, "/"));
  fork(/\\/, (text) => text.replaceAll("\\", "/"));
  fork(/;/, dropParameters);
  return variants.map((text) => fold(text.split("/")));
}

/** Returns the readings of a path with dot segments: resolved and, with `..`, unresolved. */
function readDots(path: string): string[] {
  const segments = path.split("/");
  return segments.includes("..") ? [fold(segments), ...resolve(segments)] : [fold(segments)];
}

function dropParameters(text: string): string {
  return text.replace(/;[^/]*/g, "");
}

/** Removes empty and dot segments, except for the slash at the end. */
function fold(segments: readonly string[]): string {
  const kept = segments.filter((segment) => segment !== "" && segment !== ".");
  const last = segments.at(-1);
  if (kept.length > 0 && (last === "" || last === ".")) kept.push("");
  return `/${kept.join("/")}`;
}

/** Removes a segment for each `..`. At the root, some backends ignore a `..` and others leave the root. */
function resolve(segments: readonly string[]): string[] {
  const kept: string[] = [];
  let leavesRoot = false;
  for (const segment of segments) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") kept.push(segment);
    else if (kept.pop() === undefined) leavesRoot = true;
  }
  // A path that ends in a slash or in dots names a folder.
  const resolved = fold(/^\.{0,2}$/.test(segments.at(-1) ?? "") ? [...kept, ""] : kept);
  return leavesRoot ? [resolved, outsideRoot] : [resolved];
}

/** Does not begin with a slash, so it is below no base path. */
const outsideRoot = "..";
