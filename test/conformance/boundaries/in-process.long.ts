// The same as in-process.test.ts, with 200,000 requests and 60,000 responses in test:nightly, or as many requests as
// HEADGATE_FUZZ_CASES says and three tenths as many responses.
import { expect, test } from "vitest";
import { fifth } from "../../support/runs.ts";
import { compareRequests, compareResponsesOf } from "./in-process.ts";

const { HEADGATE_FUZZ_CASES = fifth(200_000), HEADGATE_FUZZ_SEED = "20261123" } = process.env;
const requests = Number(HEADGATE_FUZZ_CASES);
const firstSeed = Number(HEADGATE_FUZZ_SEED);
const batchSize = 10_000;

for (const [count, what, run] of [
  [requests, "requests", compareRequests],
  [Math.ceil(requests * 0.3), "responses", compareResponsesOf],
] as const) {
  test(`${count} mutated ${what} have the same boundaries for us and for llhttp, or one of us refuses`, async ({
    annotate,
  }) => {
    const sums: Record<string, number> = {};
    for (let done = 0; done < count; done += batchSize) {
      const { verdicts, differences, flaws } = run(Math.min(batchSize, count - done), firstSeed + done);
      expect(flaws.slice(0, 3).join("\n\n")).toBe("");
      for (const [name, times] of Object.entries({ ...verdicts, ...differences })) {
        sums[name] = (sums[name] ?? 0) + times;
      }
    }
    await annotate(JSON.stringify(sums));
    expect(sums["same"]).toBeGreaterThan(count / 3);
  }, 1_200_000);
}
