import fc from "fast-check";
import { expect, test } from "vitest";
import { linesOf, listOf } from "../../src/core/headers.ts";

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
