import fc from "fast-check";
import { expect, test } from "vitest";
import { isNamed, linesOf, listOf } from "../../src/core/headers.ts";

const bytes = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
const near = fc.constantFrom("host", "Host", "HOST", "hosT", "h\u001aost", "h@st", "h`st", "Hos\u0054", "hos\u0094");

test("equals a comparison of lower-case copies, for all characters of a header", () => {
  fc.assert(
    fc.property(fc.oneof(bytes, near), fc.constantFrom("host", "x-forwarded-for", "h`st", "te"), (candidate, name) => {
      expect(isNamed(candidate, name)).toBe(candidate.toLowerCase() === name);
    }),
  );
  for (let code = 0; code < 256; code += 1) {
    const character = String.fromCharCode(code);
    for (const name of ["a", "z", "-", "@", "[", "`", "{", "0"]) {
      expect([code, isNamed(character, name)]).toEqual([code, character.toLowerCase() === name]);
    }
  }
});

test("a list of headers becomes the text that goes over HTTP/1", () => {
  expect(linesOf(["Date", "now", "X-Empty", "", "X-Colon", "a: b"])).toBe(
    "Date: now\r\nX-Empty: \r\nX-Colon: a: b\r\n",
  );
  expect(linesOf([])).toBe("");
});

test("the list of lines is the list that they were made of", () => {
  const name = fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,20}$/);
  const value = fc.stringMatching(/^[\x21-\x7e\x80-\xff]?[\t\x20-\x7e\x80-\xff]{0,40}$/);
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (headers) => {
      expect(listOf(linesOf(headers.flat()))).toEqual(headers.flat());
    }),
  );
});
