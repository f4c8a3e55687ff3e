// The rate-limit headers, whose text is kept between responses: it is always the text that would be made anew.
import fc from "fast-check";
import { expect, test } from "vitest";
import { QuotaLines } from "../../src/core/response-fields.ts";

const dates = ["Date: Wed, 15 Nov 2023 06:13:20 GMT\r\n", "Date: Wed, 15 Nov 2023 06:13:21 GMT\r\n"];

function madeAnew(prefixes: readonly string[], date: string, limit: number, remaining: number, reset: number): string {
  const each = prefixes.map(
    (name) => `${name}-Limit: ${limit}\r\n${name}-Remaining: ${remaining}\r\n${name}-Reset: ${reset}\r\n`,
  );
  return `${date}${each.join("")}End: `;
}

const small = fc.integer({ min: 0, max: 2 });
const response = fc.record({
  date: fc.constantFrom(...dates),
  limit: fc.oneof(small, fc.constantFrom(100, 2 ** 53 - 1)),
  remaining: fc.oneof(small, fc.constantFrom(99, 2 ** 53 - 1)),
  // 64 s apart: they are kept in the same place. The last two are beyond 32 bits.
  reset: fc.constantFrom(1_700_028_800, 1_700_028_801, 1_700_028_864, 2 ** 32, 2 ** 32 + 1),
});

test.each([[["RateLimit", "X-RateLimit"]], [["RateLimit"]], [["X-RateLimit"]], [[]]])(
  "of %j are as made anew, whatever came before",
  (prefixes) => {
    fc.assert(
      fc.property(fc.array(response, { maxLength: 40 }), (responses) => {
        const lines = new QuotaLines(prefixes, "End: ");
        for (const { date, limit, remaining, reset } of responses) {
          const expected = madeAnew(prefixes, date, limit, remaining, reset);
          expect(lines.after(date, limit, remaining, reset)).toBe(expected);
        }
      }),
    );
  },
);
