// Backends, as many as there are ways to read a path: each is a short and independent account of what some server,
// framework or URL library does before it decides which handler a path belongs to.

export interface PathReader {
  readonly name: string;
  /** The path that the backend acts on. */
  readonly read: (path: string) => string;
}

const decodeOnce = (text: string) =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

const decodeAll = (text: string): string => (decodeOnce(text) === text ? text : decodeAll(decodeOnce(text)));

/** JavaScript's `unescape`, and IIS: `%u` and four digits too, of which IIS takes some for the ASCII letters they look like. */
const unescapeOnce = (text: string) =>
  text.replace(/%u([0-9a-f]{4})|%([0-9a-f]{2})/gi, (_, unit: string | undefined, byte: string) =>
    String.fromCharCode(asciiOf(Number.parseInt(unit ?? byte, 16))),
  );
const asciiOf = (unit: number) => {
  if (unit >= 0xff01 && unit <= 0xff5e) return unit - 0xfee0;
  return unit === 0x2215 || unit === 0x2044 ? 0x2f : unit;
};

/** RFC 3986, 5.2.4: an empty segment is a segment, and `..` takes it back. */
function removeDotSegments(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split("/").slice(1)) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  return `/${kept.join("/")}`;
}

/** For those that take %2e for a dot and decode nothing else. */
const decodeDots = (path: string) =>
  path.replace(/[^/]+/g, (segment) => (/^(\.|%2e){1,2}$/i.test(segment) ? decodeOnce(segment) : segment));

const collapse = (path: string) => path.replace(/\/+/g, "/");
const dropParameters = (path: string) => path.replace(/;[^/]*/g, "");
const cut = (path: string) => path.replace(/[?#\0].*$/s, "");
/** Windows, for names of files. */
const dropEnds = (path: string) => path.replace(/([^/. ])[. ]+(?=\/|$)/g, "$1");
const dropBlanks = (path: string) => path.replace(/ +(?=\/|$)/g, "");
const toSlashes = (path: string) => path.replaceAll("\\", "/");

const steps = (name: string, ...each: ((path: string) => string)[]): PathReader => ({
  name,
  read: (path) => each.reduce((text, step) => step(text), path),
});

export const pathReaders: readonly PathReader[] = [
  steps("takes the bytes as they are"),
  { name: "uses the URL standard", read: (path) => new URL(`http://h${path}`).pathname },
  { name: "uses the URL standard, then decodes", read: (path) => decodeOnce(new URL(`http://h${path}`).pathname) },
  steps("resolves dots without decoding", removeDotSegments),
  steps("resolves dots, then decodes", removeDotSegments, decodeOnce),
  steps("resolves dots, then collapses", removeDotSegments, collapse),
  steps("collapses, then resolves dots", collapse, removeDotSegments),
  steps("takes %2e for a dot and leaves the rest", decodeDots, removeDotSegments),
  steps("decodes, then resolves dots", decodeOnce, removeDotSegments),
  steps("decodes, collapses, resolves dots", decodeOnce, collapse, removeDotSegments),
  steps("decodes all but slashes, then resolves dots", (path) =>
    removeDotSegments(
      path
        .split("/")
        .map((s) => decodeOnce(s).replaceAll("/", "%2F"))
        .join("/"),
    ),
  ),
  steps("resolves dots, decodes, resolves dots", removeDotSegments, decodeOnce, removeDotSegments),
  steps("decodes %uXXXX, then resolves dots", unescapeOnce, toSlashes, collapse, removeDotSegments),
  steps("decodes, then decodes %uXXXX", decodeOnce, unescapeOnce, removeDotSegments),
  steps("decodes, resolves dots, drops dots and blanks at the end of names", decodeOnce, removeDotSegments, dropEnds),
  steps("the same after backslashes", decodeOnce, toSlashes, collapse, removeDotSegments, dropEnds),
  steps("decodes twice", decodeOnce, decodeOnce, removeDotSegments),
  steps("decodes fully", decodeAll, collapse, removeDotSegments),
  steps("decodes fully and takes backslashes for slashes", decodeAll, toSlashes, collapse, removeDotSegments),
  steps("takes written backslashes for slashes, then decodes", toSlashes, collapse, removeDotSegments, decodeOnce),
  steps("drops parameters, decodes, resolves dots", dropParameters, decodeOnce, collapse, removeDotSegments),
  steps("decodes, drops parameters, resolves dots", decodeOnce, dropParameters, removeDotSegments),
  steps("decodes, resolves dots, drops parameters", decodeOnce, collapse, removeDotSegments, dropParameters),
  steps(
    "decodes fully, takes everything for something",
    decodeAll,
    cut,
    toSlashes,
    dropParameters,
    collapse,
    removeDotSegments,
  ),
  // Python's http.server (Django's runserver, Flask) splits the request line at every blank of Latin-1.
  steps("ends the target at a blank of Latin-1, then decodes", (path) => path.replace(/[\s\x85].*$/s, ""), decodeOnce),
  // As Python's `re.IGNORECASE` does.
  steps("decodes, and knows the case of all letters", decodeOnce, (path) =>
    Buffer.from(path, "latin1").toString("utf8").replace(/[ıİ]/g, "i").replaceAll("ſ", "s").replaceAll("\u212a", "k"),
  ),
  steps("decodes, then cuts at what ends a path", decodeOnce, cut, removeDotSegments),
  steps("decodes twice, drops dots and blanks at the end of names", decodeOnce, decodeOnce, dropEnds),
  steps("decodes fully, cuts, drops dots and blanks", decodeAll, cut, dropParameters, collapse, dropEnds),
  steps("decodes, drops blanks at the end of names, resolves dots", decodeOnce, dropBlanks, removeDotSegments),
  steps("decodes twice, drops blanks at the end of names, resolves dots", decodeAll, dropBlanks, removeDotSegments),
  // As JavaScript's and Java's `toUpperCase` do: one letter may become several.
  steps("decodes, and compares in upper case", decodeOnce, (path) =>
    Buffer.from(path, "latin1")
      .toString("utf8")
      .replace(/[^\0-\x7f]/g, (letter) => letter.toUpperCase().toLowerCase()),
  ),
];

/** Drops the host after two slashes, which ends at `ends`, and the query. */
const withoutHost = (ends: RegExp) => (path: string) => {
  if (!path.startsWith("//")) return path.replace(/[?#].*$/s, "");
  const end = path.slice(2).search(ends);
  return (end === -1 ? "" : path.slice(2 + end).replace(/[?#].*$/s, "")) || "/";
};
const likeRfc3986 = withoutHost(/[/?#]/);
const atSlash = withoutHost(/\//);
/** Node's `url.parse(path, false, true)`: what no host may have ends it, and stays in the path. */
function likeUrlParse(path: string): string {
  const given = toSlashes(path);
  if (!given.startsWith("//")) return given;
  const end = `${given}/`.slice(2).search(/[/?#]/) + 2;
  const hostAt = Math.max(given.lastIndexOf("@", end - 1) + 1, 2);
  const length = given.slice(hostAt).search(/[\s"%';<>^`{|}/?#]/);
  return length === -1 ? "/" : `/${given.slice(hostAt + length).replace(/^\//, "")}`.replace(/[?#].*$/s, "");
}
const skipSlashes = (path: string) => path.replace(/^\/{3,}/, "//");

/** Backends that take the name after two slashes for a host, because they parse the target as a reference (RFC 3986, 4.2). */
export const hostReaders: readonly PathReader[] = [
  steps("ends a host as Python, PHP and Java do", likeRfc3986),
  steps("parses as Python, PHP and Java", likeRfc3986, removeDotSegments),
  steps("parses as Python, PHP and Java, then decodes", likeRfc3986, decodeOnce, collapse, removeDotSegments),
  steps("parses as Python, then decodes twice and drops ends", likeRfc3986, decodeAll, collapse, dropEnds),
  steps("ends a host at a slash alone", atSlash, decodeOnce, collapse, removeDotSegments),
  steps("ends a host at a slash of any kind", toSlashes, skipSlashes, atSlash, decodeOnce, removeDotSegments),
  steps("decodes, then parses", decodeOnce, likeRfc3986, collapse, removeDotSegments),
  steps("decodes, takes backslashes for slashes, parses", decodeOnce, toSlashes, likeRfc3986, removeDotSegments),
  steps("decodes twice, then parses", decodeOnce, decodeOnce, atSlash, collapse, removeDotSegments),
  steps("decodes fully, skips slashes, then parses", decodeAll, toSlashes, skipSlashes, atSlash, removeDotSegments),
  steps("parses as Node's url.parse, then decodes", likeUrlParse, decodeOnce, removeDotSegments),
  { name: "resolves by the URL standard", read: (path) => decodeOnce(pathOfUrl(path)) },
];

/** No server serves what is no URL. */
function pathOfUrl(path: string): string {
  return URL.canParse(path, "http://h") ? new URL(path, "http://h").pathname : "/";
}

/** The route that a path is under once a backend has read it, in any case. */
export function landsUnder(path: string, routes: readonly string[]): string | undefined {
  const [, first, rest] = /^\/+([^/]*)(\/|$)/.exec(path.toLowerCase()) ?? [];
  return rest === undefined ? undefined : routes.find((route) => route === `/${first}/`);
}
