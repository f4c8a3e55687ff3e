import { expect, test } from "vitest";
import { parseTokens } from "../../src/auth/tokens-file.ts";

const digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
const other = "a".repeat(64);

test("digests are read in order, lowered, without comments and blank lines", () => {
  const text = `# who may come in\n\n${digest.toUpperCase()}  # mobile\r\n\t${other}\n#${"b".repeat(64)}\n`;
  expect(parseTokens(text)).toEqual({
    tokens: [
      { digest, name: "mobile" },
      { digest: other, name: null },
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
      { line: 3, found: "129 characters with blanks between them that are no SHA-256 digest" },
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
