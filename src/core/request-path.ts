// Which route a target is under, on its most inclusive reading: whatever a backend may make of the bytes (decode them,
// fold case, collapse slashes, resolve dots, drop parameters), a path that can land under a route is counted, and one
// that can land in two places is ambiguous. The reading decides; what is forwarded are the bytes as they came.

export type PathReading =
  /** Under exactly this route in every reading that matters. */
  | { readonly kind: "route"; readonly route: string }
  /** Under no route in any reading, and below the base path in all of them. */
  | { readonly kind: "unmatched" }
  /** Not below the base path in any reading. */
  | { readonly kind: "outside" }
  /** Readers would disagree. `route` is one of those it may be under, null if it is under none of them. */
  | { readonly kind: "ambiguous"; readonly route: string | null };

export type ReadPath = (path: string) => PathReading;

// A path of only these, without empty or dot segments, has one reading. Upper case is folded either way.
const plainPath = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)*\/?$/;
// The same with dot segments: every reader resolves them alike, or not at all.
const plainPathWithDots = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@-]+)*\/?$/;
const maxDecodings = 4;
/** Beyond these an odd spelling is not worth the time that reading it in every way would take. */
const maxOddLength = 512;
const maxOddSegments = 16;
/** A longer target is refused anyway; it is only looked at for whom to charge. */
const maxPathLength = 8192;

/** A route, null for a place below the base path that has none, undefined for a place outside of the base path. */
type Place = string | null | undefined;

/**
 * `routes` are prefixes that begin and end with a slash, `basePath` is what stands before them ("/" for nothing).
 * The returned function takes the path of a target: everything before the first `?`.
 */
export function createPathReader(routes: readonly string[], basePath: string): ReadPath {
  const base = basePath === "/" ? "" : basePath.toLowerCase();
  const prefixes = routes.map((route) => ({ prefix: `${base}${route.toLowerCase()}`, route }));
  const placeOf = (reading: string): Place => {
    const folded = reading.toLowerCase();
    for (const { prefix, route } of prefixes) {
      // "/v1" without its slash is the route's own root, to a backend that redirects or ignores the slash.
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
    const within = prefixes.find(({ prefix }) => texts.some((text) => mayLandUnder(prefix, text)));
    return { kind: "ambiguous", route: within?.route ?? null };
  };
  return (path) => {
    const reading = read(path);
    return twoSlashes.test(path) ? besideAuthority(reading, read(withoutAuthority(path))) : reading;
  };
}

const twoSlashes = /^(?:[/\\]|%2f|%5c){2}/i;

/**
 * Some readers take what stands behind two slashes for a host (`new URL(target, base)`), and the path begins after it.
 */
function withoutAuthority(path: string): string {
  return path.replace(/^(?:[/\\]|%2f|%5c)+.*?(?=[/\\]|%2f|%5c|$)/is, "") || "/";
}

/** As a path it is under a route or not; as an authority and a path it must not be under another. */
function besideAuthority(reading: PathReading, other: PathReading): PathReading {
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
  // Under one route in one reading and elsewhere in another is as ambiguous as under two: nothing may leave its route.
  if (seen.size === 1) return readingOf(first);
  return { kind: "ambiguous", route: [...seen].find((place) => typeof place === "string") ?? null };
}

/** Whether the names of the prefix stand in the text, in their order: no `..` can make a reader find others. */
function mayLandUnder(prefix: string, text: string): boolean {
  const names = prefix.split("/").filter((name) => name !== "");
  for (const segment of text.split(/[/\\\u0100]/)) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: some readers end a segment at one
    if (segment.replace(/[;?#\x00-\x1f\x7f].*$/s, "").toLowerCase() === names[0]) names.shift();
  }
  return names.length === 0;
}

/** The path percent-decoded once, twice, … until nothing changes. Bytes stay bytes: one character each. */
function decodings(path: string): { texts: string[]; isDeceptive: boolean } {
  if (path.length > maxPathLength) return { texts: [path], isDeceptive: true };
  const texts: string[] = [];
  let isDeceptive = false;
  for (let text = path, depth = 0; ; depth += 1) {
    // Nothing that is still encoded after so many rounds was written by an honest client.
    if (depth > maxDecodings) return { texts, isDeceptive: true };
    const decoded = text.replace(/%([0-9a-f]{2})/gi, decodeByte);
    if (depth === 0 || decoded !== text) texts.push(decoded);
    isDeceptive ||= hidesCharacters(decoded) || climbs(decoded);
    if (decoded === text) return { texts, isDeceptive };
    text = decoded;
  }
}

/** Some readers split at an encoded slash and some do not: it becomes a character that no byte is. */
const encodedSlash = "\u0100";

function decodeByte(_: string, hex: string): string {
  const code = Number.parseInt(hex, 16);
  return code === 0x2f ? encodedSlash : String.fromCharCode(code);
}

/** Control bytes end a path for some readers; an overlong UTF-8 form of an ASCII character is one to careless ones. */
function hidesCharacters(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\x00-\x1f\x7f]|[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}/.test(text);
}

/**
 * Readers differ in what they decode, split at and drop before `..` takes back a segment, so beside anything but plain
 * segments it can lead anywhere. Honest clients resolve it before they send.
 */
function climbs(text: string): boolean {
  return /(?:^|[/\\\u0100])\.\.(?:[/\\\u0100;?#]|$)/.test(text);
}

/**
 * As much of a decoded path as can matter to where it lands: nothing in it climbs, so once `depth` segments begin like
 * names no reader finds the route further on. Undefined if that is more than is worth reading.
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
 * What readers may make of the beginning of a decoded path. Case, empty segments and single dots are always folded:
 * that only widens what counts. The rest can move a path elsewhere, so it is read both ways.
 */
function readings(decoded: string): string[] {
  let variants = [decoded];
  const fork = (pattern: RegExp, change: (text: string) => string): void => {
    if (pattern.test(decoded)) variants = variants.flatMap((text) => [text, change(text)]);
  };
  fork(/[?#]/, (text) => text.replace(/[?#].*$/s, "")); // decoded first, then cut
  // Parameters end at a slash, so it matters whether they are dropped before or after others have become one.
  fork(/;/, dropParameters);
  fork(/\u0100/, (text) => text.replaceAll(encodedSlash, "/"));
  fork(/\\/, (text) => text.replaceAll("\\", "/"));
  fork(/;/, dropParameters);
  return variants.map((text) => fold(text.split("/")));
}

/** Readers resolve dots, or not at all. */
function readDots(path: string): string[] {
  const segments = path.split("/");
  return segments.includes("..") ? [fold(segments), ...resolve(segments)] : [fold(segments)];
}

function dropParameters(text: string): string {
  return text.replace(/;[^/]*/g, "");
}

/** Without empty and dot segments, but for the slash at the end. */
function fold(segments: readonly string[]): string {
  const kept = segments.filter((segment) => segment !== "" && segment !== ".");
  const last = segments.at(-1);
  if (kept.length > 0 && (last === "" || last === ".")) kept.push("");
  return `/${kept.join("/")}`;
}

/**
 * With `..` taking back a segment; a path that climbs out of the root is stopped there by some and let out by others.
 */
function resolve(segments: readonly string[]): string[] {
  const kept: string[] = [];
  let climbsOut = false;
  for (const segment of segments) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") kept.push(segment);
    else if (kept.pop() === undefined) climbsOut = true;
  }
  // What ends in a slash or in dots names a folder.
  const resolved = fold(/^\.{0,2}$/.test(segments.at(-1) ?? "") ? [...kept, ""] : kept);
  return climbsOut ? [resolved, outsideRoot] : [resolved];
}

/** Begins with no slash, so it is below no base path. */
const outsideRoot = "..";
