// Clients of HTTP/2 that do anything at any moment: 300, or 1,500 in `npm run test:nightly`. A seed of its own may be given: HEADGATE_FUZZ_SEED.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { fifth } from "../../support/runs.ts";
import { useTls } from "../../support/tls-listener.ts";
import { startChaos } from "./http2-chaos.ts";

const cleanup = useCleanup();
const withTls = useTls();
const { HEADGATE_FUZZ_SEED } = process.env;
const firstSeed = Number(HEADGATE_FUZZ_SEED ?? 20_261_122);

const rounds = 3;
const clientsEach = fifth(500);

test(`${rounds * clientsEach} HTTP/2 clients that do anything at any moment leave nothing behind`, async () => {
  const { run, isOver, gateway } = await startChaos(cleanup, withTls());
  for (let round = 0; round < rounds; round += 1) {
    await run(firstSeed + round * clientsEach, clientsEach);
    await isOver();
  }
  expect(gateway.logLines.filter(({ level }) => level === "error")).toEqual([]);
});
