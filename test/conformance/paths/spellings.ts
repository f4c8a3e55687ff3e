// Spellings of a route's paths, and of paths that only look like one: every class in which a gateway and a backend have
// disagreed, alone and in pairs. The same list each time.

/** What stands before the route's name. `other` is another route. */
const before = (other: string): string[] => [
  "/",
  "//",
  "///",
  "/./",
  "/.//",
  "/%2e/",
  "/%2E%2f",
  "/../",
  "/x/../",
  "/x/%2e%2e/",
  "/x/.%2E/",
  "/x/..%2f",
  "/x/..%5c",
  "/x/..\\",
  "/x/..;/",
  "/x/..;a=b/",
  "/x/%252e%252e/",
  "/x/..%252f",
  "/x/..%00/",
  "/%2f",
  "/%5c",
  "/\\",
  "/;/",
  "/;a=b/",
  "/%3b/",
  "/%00/",
  "/%c0%af",
  "/x/%c0%ae%c0%ae/",
  "/x/..%c0%af",
  "/%u002f",
  "/x/%u002e%u002e/",
  "/x/..%u2215",
  "/x/%25u002e./",
  "/%e0%80%af",
  "/%23/",
  "/%3f/",
  "/x?/",
  "/x#/",
  "/x/",
  "/x",
  `/${other}/../`,
  `/${other}/%2e%2e/`,
  `/${other}/..%2f`,
  `/${other}/..\\`,
  `/${other}/`,
];

/** The route's name, for letters and digits such as "v1". */
const names = (name: string): string[] => {
  const bytes = [...name].map((character) => character.charCodeAt(0).toString(16));
  const encoded = bytes.map((hex) => `%${hex}`);
  const [first = "", second = ""] = name;
  return [
    name,
    name.toUpperCase(),
    encoded.join(""),
    `${encoded[0]}${second}`,
    `${first}${encoded[1]}`,
    `%${(Number.parseInt(bytes[0] ?? "", 16) - 32).toString(16)}${second}`,
    encoded.join("").replaceAll("%", "%25"),
    encoded.join("").replaceAll("%", "%2525"),
    `${name}0`,
    `${name}.`,
    `.${name}`,
    `${name}%20`,
    `${name}..`,
    `${name}%2e%20.`,
    `%20${name}`,
    `%c1%b6${second}`,
    `%u00${bytes[0]}${second}`,
    `%U00${bytes[0]}${second}`,
    `%uff56${second}`,
    `%25u00${bytes[0]}${second}`,
    `${first}/../${name}`,
  ];
};

/** What stands behind the route's name. */
const behind = (other: string): string[] => [
  "/x",
  "",
  "/",
  "//x",
  "/./x",
  "/%2e/x",
  "/a/../x",
  "/a/%2e%2e/x",
  "/../x",
  `/../${other}/x`,
  `/%2e%2e/${other}/x`,
  `/..%2f${other}/x`,
  `/..%5c${other}/x`,
  `/..\\${other}/x`,
  `/..;/${other}/x`,
  `/%252e%252e/${other}/x`,
  `/a/../../${other}/x`,
  `/x%2f..%2f..%2f${other}%2fy`,
  `/%c0%ae%c0%ae/${other}/x`,
  `/..%00/${other}/x`,
  `/%u002e%u002e/${other}/x`,
  "/%u0061",
  "/%u006",
  "/x%u2044y",
  ";a=b/x",
  ";/x",
  "/x;a=/../b",
  "./x",
  "%20",
  ".",
  "/x.",
  "/x%20/y",
  "/...",
  ".;a/x",
  "%2e%5cx",
  "%2fx",
  "%2Fx",
  "%5cx",
  "\\x",
  "%252fx",
  "%00/x",
  "/x%00",
  "/x%0a",
  "%3f/x",
  "%23/x",
  "#/x",
  "?a=/../x",
  "/x?",
  `/x?/../${other}`,
  "/%C3%A4",
  "/%ff",
  "/%",
  "/%zz",
  "/a%20b",
  "/{a}|^`",
];

/** All of one class with the plain rest, and all pairs of classes with the plain third. */
export function spellingsOf(name: string, other: string): string[] {
  const spellings = new Set<string>();
  for (const first of before(other)) {
    for (const last of behind(other)) spellings.add(first + name + last);
    for (const middle of names(name)) spellings.add(`${first + middle}/x`);
  }
  for (const middle of names(name)) for (const last of behind(other)) spellings.add(`/${middle}${last}`);
  return [...spellings];
}

/** All of one class with the plain rest. */
export function singleSpellingsOf(name: string, other: string): string[] {
  return [
    ...before(other).map((first) => `${first}${name}/x`),
    ...names(name).map((middle) => `/${middle}/x`),
    ...behind(other).map((last) => `/${name}${last}`),
  ];
}
