// Differential fuzz of requests: mutated ones through the gateway to four real servers, 102,000 in all in test:nightly. A seed of its own may be
// given: HEADGATE_FUZZ_SEED and HEADGATE_FUZZ_CASES (for each server).
import { expect, test } from "vitest";
import { fifth } from "../../support/runs.ts";
import { apacheServer } from "./backends/apache.ts";
import { haproxyServer } from "./backends/haproxy.ts";
import { nginxServer } from "./backends/nginx.ts";
import { nodeServer } from "./backends/node.ts";
import { RequestFuzz } from "./request-fuzz.ts";

const { HEADGATE_FUZZ_SEED, HEADGATE_FUZZ_CASES, HEADGATE_REQUIRE } = process.env;
const firstSeed = Number(HEADGATE_FUZZ_SEED ?? 20_261_121);
const casesEach = Number(HEADGATE_FUZZ_CASES ?? fifth(25_500));
const batchSize = 5_000;

const servers = [nodeServer, nginxServer, haproxyServer, apacheServer];

for (const [i, server] of servers.entries()) {
  const needs = server.debianPackage === "" ? "" : ` (needs it: apt-get install ${server.debianPackage})`;
  const skip = !server.isInstalled() && HEADGATE_REQUIRE !== "all";
  test.skipIf(skip)(`what ${server.name} sees is what was forwarded${needs}`, async ({ annotate }) => {
    const fuzz = await RequestFuzz.start(server);
    try {
      // Each server gets cases of its own, unless one is asked for.
      const from = HEADGATE_FUZZ_SEED === undefined ? firstSeed + i * casesEach : firstSeed;
      for (let done = 0; done < casesEach; done += batchSize) {
        const size = Math.min(batchSize, casesEach - done);
        const flaws = await fuzz.runBatch(Array.from({ length: size }, (_, k) => from + done + k));
        expect(flaws.slice(0, 5).join("\n\n")).toBe("");
      }
      expect((await fuzz.finish()).slice(0, 5).join("\n\n")).toBe("");
    } finally {
      await annotate(JSON.stringify(fuzz.figures));
      await fuzz.close();
    }
    // Cases that are all refused would show nothing.
    if (casesEach >= 1_000) expect(fuzz.figures.forwarded).toBeGreaterThan(casesEach / 4);
  });
}
