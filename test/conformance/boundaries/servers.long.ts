// The boundaries of mutated requests by our codec and by nginx, HAProxy and Apache, 3,000 for each, or as many as
// HEADGATE_FUZZ_CASES says.
import { expect, test } from "vitest";
import { apacheServer } from "../fuzz/backends/apache.ts";
import { haproxyServer } from "../fuzz/backends/haproxy.ts";
import { nginxServer } from "../fuzz/backends/nginx.ts";
import { compareWithServer } from "./servers.ts";

const { HEADGATE_FUZZ_CASES = "3000", HEADGATE_FUZZ_SEED = "20261124", HEADGATE_REQUIRE } = process.env;
const cases = Number(HEADGATE_FUZZ_CASES);
const firstSeed = Number(HEADGATE_FUZZ_SEED);
const batchSize = 3_000;

for (const server of [nginxServer, haproxyServer, apacheServer]) {
  const skip = !server.isInstalled() && HEADGATE_REQUIRE !== "all";
  test.skipIf(skip)(
    `${cases} mutated requests have the same boundaries for us and for ${server.name}, or one of us refuses (needs ${server.debianPackage})`,
    async ({ annotate }) => {
      const sums: Record<string, number> = {};
      for (let done = 0; done < cases; done += batchSize) {
        const { verdicts, flaws } = await compareWithServer(
          server,
          Math.min(batchSize, cases - done),
          firstSeed + done,
        );
        expect(flaws.slice(0, 3).join("\n\n")).toBe("");
        for (const [name, times] of Object.entries(verdicts)) sums[name] = (sums[name] ?? 0) + times;
      }
      await annotate(JSON.stringify(sums));
      expect(sums["same"]).toBeGreaterThan(cases / 3);
    },
    3_600_000,
  );
}
