// What is remembered of closed streams must not depend on how many there were when memory for them was made.
import fc from "fast-check";
import { expect, test } from "vitest";
import { ClosedStreams, type Ending } from "../../src/http2/responses.ts";

const remembered = 256;
const endings = fc.constantFrom<Ending>("reset", "gone", "ended");

test("each of the last 256 streams has its ending, whatever streams are skipped", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.oneof(fc.constant(1), fc.nat({ max: 600 })), endings)), (steps) => {
      const closed = new ClosedStreams();
      const bySlot = new Map<number, { stream: number; ending: Ending }>();
      let stream = 1;
      for (const [step, ending] of steps) {
        // A step of 0: the same stream ends on the other side, too.
        stream += 2 * step;
        closed.add(stream, ending);
        bySlot.set((stream >>> 1) % remembered, { stream, ending });
      }
      for (let id = 1; id <= stream + 2; id += 2) {
        const known = bySlot.get((id >>> 1) % remembered);
        const ending = known?.stream === id ? known.ending : null;
        // Hundreds of thousands of calls of expect() would take longer than everything else.
        if (closed.endingOf(id) !== ending) expect(closed.endingOf(id), `of ${id}`).toBe(ending);
      }
    }),
  );
});

test("the highest stream there is has its ending", () => {
  const closed = new ClosedStreams();
  closed.add(1, "gone");
  closed.add(0x7fff_ffff, "reset");
  expect([closed.endingOf(1), closed.endingOf(0x7fff_ffff), closed.endingOf(3)]).toEqual(["gone", "reset", null]);
});
