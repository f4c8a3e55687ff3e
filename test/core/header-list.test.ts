// The comparison of names, which is done for all headers of all messages.
import fc from "fast-check";
import { expect, test } from "vitest";
import { isNamed } from "../../src/core/headers.ts";

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
