// Clients of HTTP/2 that do anything at any moment, 1,500 of them. A seed of its own may be given: HEADGATE_FUZZ_SEED.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { useTls } from "../../support/tls-listener.ts";
import { startChaos } from "./http2-chaos.ts";

const cleanup = useCleanup();
const withTls = useTls();
const { HEADGATE_FUZZ_SEED } = process.env;
const firstSeed = Number(HEADGATE_FUZZ_SEED ?? 20_261_122);

test("1,500 HTTP/2 clients that do anything at any moment leave nothing behind", async () => {
  const { run, isOver, gateway } = await startChaos(cleanup, withTls());
  for (let done = 0; done < 1_500; done += 500) {
    await run(firstSeed + done, 500);
    await isOver();
  }
  expect(gateway.logLines.filter(({ level }) => level === "error")).toEqual([]);
});
