// How many clients are let in where files are few.
import { expect, test } from "vitest";
import { fitOpenFiles } from "../../src/commands/start.ts";
import { testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";

const settings = testSettings(deadUrl, {
  listen: { maxConnections: 1000 },
  upstream: { maxConnections: 100 },
  upgrade: { maxTunnels: 200 },
});

test.each([
  ["more than enough", 100_000, 1000],
  ["just enough", 1400, 1000],
  ["one too few", 1399, 999],
  ["too few for anything else", 500, 250],
  ["hardly any", 41, 20],
])("%s: of %i files clients get %i", (_, maxOpenFiles, maxConnections) => {
  expect(fitOpenFiles(maxOpenFiles, settings)).toEqual({ needed: 1400, maxConnections });
});
