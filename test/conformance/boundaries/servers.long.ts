// The boundaries of mutated messages by our codec and by nginx, HAProxy and Apache, as servers and as proxies: 600 requests and
// 300 responses for each, 3,000 and 1,500 in `npm run test:nightly`, or as many requests as HEADGATE_FUZZ_CASES says and half as many responses.
import { expect, test } from "vitest";
import { fifth } from "../../support/runs.ts";
import { apacheServer } from "../fuzz/backends/apache.ts";
import { haproxyServer } from "../fuzz/backends/haproxy.ts";
import { nginxServer } from "../fuzz/backends/nginx.ts";
import { compareWithProxy, proxies } from "./proxies.ts";
import { compareWithServer } from "./servers.ts";

const { HEADGATE_FUZZ_CASES = fifth(3_000), HEADGATE_FUZZ_SEED = "20261124", HEADGATE_REQUIRE } = process.env;
const cases = Number(HEADGATE_FUZZ_CASES);
const firstSeed = Number(HEADGATE_FUZZ_SEED);
const batchSize = 3_000;

type Compare = (
  count: number,
  firstSeed: number,
) => Promise<{
  readonly verdicts: Record<string, number>;
  readonly flaws: readonly string[];
}>;

/** Returns how often there was which verdict. */
async function inBatches(count: number, compare: Compare): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (let done = 0; done < count; done += batchSize) {
    const { verdicts, flaws } = await compare(Math.min(batchSize, count - done), firstSeed + done);
    expect(flaws.slice(0, 3).join("\n\n")).toBe("");
    for (const [name, times] of Object.entries(verdicts)) sums[name] = (sums[name] ?? 0) + times;
  }
  expect(sums["same"]).toBeGreaterThan(count / 3);
  return sums;
}

const judges = [
  ...[nginxServer, haproxyServer, apacheServer].map((server) => ({
    ...server,
    what: "requests",
    count: cases,
    compare: compareWithServer.bind(null, server),
  })),
  ...proxies.map((proxy) => ({
    ...proxy,
    what: "responses",
    count: Math.ceil(cases / 2),
    compare: compareWithProxy.bind(null, proxy),
  })),
];

for (const { name, debianPackage, isInstalled, what, count, compare } of judges) {
  test.skipIf(!isInstalled() && HEADGATE_REQUIRE !== "all")(
    `${count} mutated ${what} have the same boundaries for us and for ${name}, or one of us refuses (needs ${debianPackage})`,
    async ({ annotate }) => {
      await annotate(JSON.stringify(await inBatches(count, compare)));
    },
    3_600_000,
  );
}
