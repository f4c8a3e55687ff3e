// Fuzz of responses: mutated ones, 101,000 in test:nightly. Each is passed on as RFC 9112 reads it, or is a 502, or visibly breaks; and
// the next client gets the answer to its own request. HEADGATE_FUZZ_SEED and HEADGATE_FUZZ_CASES give others.
import { expect, test } from "vitest";
import { fifth } from "../../support/runs.ts";
import { sideBySide } from "../side-by-side.ts";
import { type ResponseFigures, ResponseLane } from "./response-fuzz.ts";

const { HEADGATE_FUZZ_SEED = "20261121", HEADGATE_FUZZ_CASES } = process.env;
const firstSeed = Number(HEADGATE_FUZZ_SEED);
const cases = Number(HEADGATE_FUZZ_CASES ?? fifth(101_000));

test("a mutated response is passed on, refused or broken off, and no other client sees any of it", async ({
  annotate,
}) => {
  const figures: ResponseFigures = { cases: 0, markers: new Set(), passed: 0, refused: 0, broken: 0 };
  const lanes = await Promise.all(Array.from({ length: 16 }, () => ResponseLane.start(figures)));
  const flaws: string[] = [];
  try {
    const seeds = Array.from({ length: cases }, (_, i) => firstSeed + i);
    await sideBySide(lanes, seeds, async (lane, seed) => {
      flaws.push(...(await lane.run(seed)));
    });
    expect(flaws.slice(0, 5).join("\n\n")).toBe("");
  } finally {
    await annotate(JSON.stringify({ ...figures, markers: figures.markers.size }));
    await Promise.all(lanes.map((lane) => lane.close()));
  }
  // Had one of them hardly happened, little would have been shown.
  if (cases >= 1_000)
    for (const count of [figures.passed, figures.refused, figures.broken]) expect(count).toBeGreaterThan(cases / 50);
});
