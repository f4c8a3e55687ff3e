import { expect, test } from "vitest";
import { parseTokens, secretsFile } from "../../src/auth/tokens-file.ts";

const digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
const other = "a".repeat(64);

test("digests are read in order, lowered, without comments and blank lines", () => {
  const text = `# who may come in\n\n${digest.toUpperCase()}  # mobile\r\n\t${other}\n#${"b".repeat(64)}\n`;
  expect(parseTokens(text)).toEqual({
    tokens: [
      { line: 3, digest, name: "mobile", scopes: [], endsMs: null },
      { line: 4, digest: other, name: null, scopes: [], endsMs: null },
    ],
    errors: [],
  });
});

test("every bad line is an error with its number, and none is repeated", () => {
  const secret = "VkDDbDGps0CCAPg1VJk1lTuDFvUvJB6QHXZCGApWlZw";
  const parsed = parseTokens(`${digest}\n${secret}\n${digest} ${other}\n${digest}0\nx\n`);
  expect(parsed).toMatchObject({
    errors: [
      { line: 2, found: "43 characters that are no SHA-256 digest" },
      { line: 3, found: "text behind the digest" },
      { line: 4, found: "65 characters that are no SHA-256 digest" },
      { line: 5, found: "1 character that is no SHA-256 digest" },
    ],
  });
  expect(JSON.stringify(parsed)).not.toContain(secret);
});

test("a file without a digest has none, which is no mistake of any line", () => {
  for (const text of ["", "\n\n", "# none yet\n"]) {
    expect(parseTokens(text)).toEqual({ tokens: [], errors: [] });
  }
});

test("the comment behind a digest is the name: trimmed, of at most 64 characters, the same for several tokens", () => {
  const nameIn = (line: string) => parseTokens(line).tokens.map(({ name }) => name);
  expect(nameIn(`${digest} #\tpartner a \n${other}#partner a`)).toEqual(["partner a", "partner a"]);
  expect(nameIn(`${digest} # a # b`)).toEqual(["a # b"]);
  for (const comment of ["", "#", "#  \t"]) expect(nameIn(digest + comment)).toEqual([null]);
  expect(nameIn(`${digest} # ${"😀".repeat(65)}`)).toEqual(["😀".repeat(64)]);
  expect(nameIn(`${digest} # ${"a".repeat(63)} b`)).toEqual(["a".repeat(63)]);
});

test("behind a digest stand scopes and an end, in any order, before the name", () => {
  const terms = (line: string) =>
    parseTokens(`${digest} ${line}`).tokens.map(({ name, scopes, endsMs }) => [name, scopes, endsMs]);
  const endsMs = Date.UTC(2027, 0, 31, 12, 30, 1);
  expect(terms("scopes=read,export expires=2027-01-31T12:30:01Z # alice")).toEqual([
    ["alice", ["read", "export"], endsMs],
  ]);
  expect(terms("\texpires=2027-01-31T12:30:01Z  scopes=a:b.c,a:b.c#x=y")).toEqual([["x=y", ["a:b.c"], endsMs]]);
  expect(terms("# scopes=read")).toEqual([["scopes=read", [], null]]);
});

test.each([
  ["expires=2027-01-31", "an end that is no instant"],
  ["expires=2027-02-30T00:00:00Z", "an end that is no instant"],
  ["expires=2027-01-31T00:00:00+01:00", "an end that is no instant"],
  ["expires=", "an end that is no instant"],
  ["expires=2027-01-31T00:00:00Z expires=2028-01-31T00:00:00Z", "scopes or an end twice"],
  ["scopes=", "scopes that are none"],
  ["scopes=read,", "scopes that are none"],
  ['scopes=a"b', "scopes that are none"],
  ["alice", "text behind the digest"],
  ["scope=read", "text behind the digest"],
  ["scopes=read, export", "text behind the digest"],
])("%s is a flaw: %s", (terms, found) => {
  expect(parseTokens(`# tokens\n${digest} ${terms}`)).toMatchObject({ tokens: [], errors: [{ line: 2, found }] });
});

test.each(["line:   ", "sha256: ", "LINE:"])("a line copied with its label %j is told from a wrong digest", (label) => {
  expect(parseTokens(`${label}${digest}  # alice`).errors).toEqual([
    { line: 1, found: "a label before the digest", expected: 'what "headgate token" prints behind "line:"' },
  ]);
});

test("a digest that comes again must have the same scopes and end", () => {
  expect(parseTokens(`${digest} scopes=a # one\n${digest} scopes=a # two`).errors).toEqual([]);
  for (const terms of ["", "scopes=b", "scopes=a expires=2027-01-31T00:00:00Z"]) {
    expect(parseTokens(`${digest} scopes=a\n${digest} ${terms}`).errors).toEqual([
      { line: 2, found: "the digest of line 1 with other scopes or another end", expected: "each digest once" },
    ]);
  }
});

test("secrets of ingresses have neither", () => {
  const parse = (text: string) => secretsFile("k", "/f").parse({ k: text }, true);
  expect(parse(`${digest} # edge`).ok).toBe(true);
  expect(parse(`${digest} scopes=a`)).toMatchObject({
    ok: false,
    flaws: [{ line: 1, found: "a secret with scopes or an end" }],
  });
  expect(parse(`x`)).toMatchObject({ ok: false, flaws: [{ line: 1, found: "1 character that is no SHA-256 digest" }] });
});
