// Our HPACK against nghttp2 and python3-hpack: 1,000 connections. hpack-sequences.long.ts has more.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { compareSequences, hasJudges } from "./hpack-sequences.ts";

const cleanup = useCleanup();
const skip = !hasJudges() && process.env["HEADGATE_REQUIRE"] !== "all";

test.skipIf(skip)(
  "1,000 connections decode to the same fields as by nghttp2 and python3-hpack (needs python3-hpack and nghttp2-client)",
  async () => {
    const { figures, differences } = await compareSequences(cleanup, 1_000, 1);
    expect(differences.slice(0, 3).join("\n")).toBe("");
    expect(figures.refused).toBeGreaterThan(50);
    expect(figures.bounded).toBeLessThan(20);
  },
);
