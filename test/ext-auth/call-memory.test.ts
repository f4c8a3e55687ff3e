// A call is found only if its bytes come again, and is kept only while that happens.
import fc from "fast-check";
import { expect, test } from "vitest";
import { CallMemory, type ReadCall } from "../../src/ext-auth/http/call-connection.ts";

const callOf = (target: string): ReadCall => ({
  ...{ method: "GET", target, rawHeaders: [], isLast: false, isKept: false, head: null },
});

test("finds the last call, for its bytes and no others", () => {
  const packets = fc.constantFrom("", "a", "b", "ab", "ba", "abc", "x".repeat(2048), "x".repeat(2049));
  fc.assert(
    fc.property(fc.array(packets, { maxLength: 60 }), (asked) => {
      const memory = new CallMemory();
      let last: string | null = null;
      for (const text of asked) {
        const packet = Buffer.from(text);
        const found = memory.find(packet);
        expect(found?.target ?? null).toBe(text === last ? text : null);
        if (found === null) last = memory.keep(packet, callOf(text)) ? text : null;
        // The memory of the packet is used for the next one.
        packet.fill(0);
      }
    }),
  );
});

test("of a connection on which no call comes again few are kept, until one does", () => {
  const memory = new CallMemory();
  const keep = (i: number): boolean => memory.keep(Buffer.from(`${i}`), callOf(`${i}`));
  let kept = 0;
  for (let i = 0; i < 1600; i += 1) kept += keep(i) ? 1 : 0;
  expect(kept).toBeLessThan(150);
  while (!keep(-1));
  expect(memory.find(Buffer.from("-1"))?.target).toBe("-1");
  for (let i = 0; i < 10; i += 1) expect(keep(i)).toBe(true);
});
