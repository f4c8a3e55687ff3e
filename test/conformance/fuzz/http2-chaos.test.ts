// A short run of what http2-chaos.long.ts does at length.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { useTls } from "../../support/tls-listener.ts";
import { startChaos } from "./http2-chaos.ts";

const cleanup = useCleanup();
const withTls = useTls();

/** More than all clients take on a busy machine, and the 15 s after which something remains. */
const timeoutMs = 60_000;

test("HTTP/2 clients that do anything at any moment leave nothing behind", { timeout: timeoutMs }, async () => {
  const { run, isOver, gateway } = await startChaos(cleanup, withTls());
  await run(1, 50);
  await isOver();
  expect(gateway.logLines.filter(({ level }) => level === "error")).toEqual([]);
});
