// A reload asks the threads to put into force only what it has asked them to prepare.
import { expect, test } from "vitest";
import { FileWatcher } from "../../src/config/files.ts";
import { InTurn } from "../../src/core/in-turn.ts";
import { createCounterMemory, openCounters } from "../../src/gateway/open-counters.ts";
import { Workers } from "../../src/gateway/workers.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { FakeClock } from "../support/clock.ts";
import { testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";

function stage() {
  const asked: string[] = [];
  const threads = {
    turn: new InTurn(),
    prepare: async () => void asked.push("prepare"),
    commit: async () => void asked.push("commit"),
  };
  const chosen = { slots: [], kept: [] };
  const main = { configuration: { limiter: chosen }, prepare: async () => ({ chosen, commit() {}, drop() {} }) };
  const roles = { main, threads } as unknown as ConstructorParameters<typeof Workers>[0];
  const counters = openCounters(createCounterMemory(minTableBytes));
  return { asked, workers: new Workers(roles, new FileWatcher(), { counters, clock: new FakeClock() }) };
}

test("a reload in which nothing has changed asks the threads nothing", async () => {
  const { asked, workers } = stage();
  await workers.replace(null);
  expect(asked).toEqual([]);
});

test("settings are prepared by the threads, then put into force", async () => {
  const { asked, workers } = stage();
  await workers.replace(testSettings(deadUrl));
  expect(asked).toEqual(["prepare", "commit"]);
});
