// Our HPACK against nghttp2 and python3-hpack: 2,000 connections, 10,000 in `npm run test:nightly`, or as many as
// HEADGATE_FUZZ_CASES says.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { fifth } from "../support/runs.ts";
import { compareSequences, hasJudges } from "./hpack-sequences.ts";

const cleanup = useCleanup();
const { HEADGATE_FUZZ_CASES = fifth(10_000), HEADGATE_REQUIRE } = process.env;
const count = Number(HEADGATE_FUZZ_CASES);
const skip = !hasJudges() && HEADGATE_REQUIRE !== "all";

test.skipIf(skip)(
  `${count} connections decode to the same fields as by nghttp2 and python3-hpack (needs python3-hpack and nghttp2-client)`,
  async ({ annotate }) => {
    const { figures, differences } = await compareSequences(cleanup, count, 2);
    await annotate(JSON.stringify(figures));
    expect(differences.slice(0, 3).join("\n")).toBe("");
    expect(figures.sequences).toBe(count);
    expect(figures.refused).toBeGreaterThan(count / 20);
    expect(figures.bounded).toBeLessThan(count / 50);
  },
  1_200_000,
);
