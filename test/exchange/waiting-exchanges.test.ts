// The list of what waits is as good as a Set.
import fc from "fast-check";
import { expect, test } from "vitest";
import { WaitingExchanges } from "../../src/exchange/waiting-exchanges.ts";

test("has what was added and not deleted, in any order, and deletes what is not there too", () => {
  const steps = fc.array(fc.record({ adds: fc.boolean(), which: fc.nat({ max: 5 }) }), { maxLength: 40 });
  fc.assert(
    fc.property(steps, (drawn) => {
      const aborted: number[] = [];
      const exchanges = Array.from({ length: 6 }, (_, name) => ({
        name,
        waitingIndex: -1,
        abort: () => void aborted.push(name),
      }));
      const [waiting, model] = [new WaitingExchanges<{ waitingIndex: number; abort(): void }>(), new Set<number>()];
      for (const { adds, which } of drawn) {
        const exchange = exchanges[which];
        if (exchange === undefined || (adds && model.has(which))) continue;
        if (adds) waiting.add(exchange);
        else waiting.delete(exchange);
        if (adds) model.add(which);
        else model.delete(which);
      }
      waiting.abortAll();
      expect(aborted.toSorted()).toEqual([...model].toSorted());
    }),
  );
});
