// Reloads, one at a time, with a carrier that a test holds back.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { settingsSource } from "../../src/commands/load-config.ts";
import { effective } from "../../src/config/effective.ts";
import { FileWatcher } from "../../src/config/files.ts";
import { loadSettings, type SettingsSource } from "../../src/config/load.ts";
import { schema } from "../../src/config/schema.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { ReloadCause, ReloadResult } from "../../src/core/reload.ts";
import type { Settings } from "../../src/core/settings.ts";
import { NotPreparedError } from "../../src/gateway/open-counters.ts";
import { Reloader } from "../../src/gateway/reloader.ts";
import { testIo } from "../commands/test-io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { testSettings } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import { keptLog } from "../telemetry/lines.ts";

const cleanup = useCleanup();

const noFiles = { taken: [], refused: [] };
const settingsOf = (maxBodyBytes: number): Settings => ({ ...testSettings("http://127.0.0.1:9"), maxBodyBytes });

/** One text after the other, the last one again and again. */
function sourceOf(...texts: readonly string[]): SettingsSource {
  let next = 0;
  const load = (): ReturnType<SettingsSource["load"]> => {
    const input = Buffer.from(texts[Math.min(next, texts.length - 1)] ?? "");
    const loaded = loadSettings({ file: "-", input, env: {}, cwd: "/", overrides: [] });
    next += 1;
    return loaded.ok
      ? { ...loaded, place: loaded.files.place }
      : { ok: false, errors: loaded.errors.map(renderConfigError) };
  };
  return { file: null, load };
}

function settingsIn(source: SettingsSource | null): Settings | null {
  const loaded = source?.load();
  return loaded?.ok ? loaded.settings : null;
}

/** A reloader of a carrier whose `replace` waits until the test lets it go on. */
function stage(source: SettingsSource | null = null, files = new FileWatcher()) {
  const asked: (number | null)[] = [];
  const held: PromiseWithResolvers<void>[] = [];
  const reported: [ReloadCause, boolean][] = [];
  const carrier = {
    settings: settingsIn(source) ?? settingsOf(0),
    listedTokens: () => null,
    async endTrial() {},
    async replace(settings: Settings | null) {
      asked.push(settings?.maxBodyBytes ?? null);
      const waiting = Promise.withResolvers<void>();
      held.push(waiting);
      await waiting.promise;
      carrier.settings = settings ?? carrier.settings;
      return noFiles;
    },
  };
  const kept = keptLog();
  const reloader = new Reloader(carrier.settings, carrier, {
    files,
    adminFiles: { prepare: async () => ({ commit() {}, drop() {} }) },
    log: kept.log,
    clock: systemClock,
    telemetry: {
      reloaded: (result: ReloadResult, cause: ReloadCause) => void reported.push([cause, result.ok]),
      trialChanged() {},
    },
    source,
  });
  const turns = () => new Promise((resolve) => setImmediate(resolve));
  return { asked, held, reported, reloader, carrier, files, kept, turns };
}

test("of reloads that are asked for while one runs, only the last is carried out, and all get its result", async () => {
  const { asked, held, reported, reloader, carrier, turns } = stage();
  const first = reloader.to(settingsOf(1));
  await turns();
  const later = [2, 3, 4].map((bytes) => reloader.to(settingsOf(bytes)));
  await turns();
  expect(asked).toEqual([1]);
  held[0]?.resolve();
  expect((await first).changed).toEqual(["maxBodyBytes"]);
  await turns();
  expect(asked).toEqual([1, 4]);
  held[1]?.resolve();
  const results = await Promise.all(later);
  expect(new Set(results).size).toBe(1);
  expect(carrier.settings.maxBodyBytes).toBe(4);
  expect(reported).toEqual([
    ["call", true],
    ["call", true],
  ]);
});

test("a reload that cannot be prepared says why and changes nothing, and the next one is carried out", async () => {
  const { held, reloader, carrier, turns } = stage();
  const first = reloader.to(settingsOf(1));
  await turns();
  held[0]?.reject(new NotPreparedError("too many policies"));
  expect(await first).toMatchObject({ ok: false, errors: ["too many policies"], changed: [] });
  expect(carrier.settings.maxBodyBytes).toBe(0);
  const second = reloader.to(settingsOf(2));
  await turns();
  held[1]?.resolve();
  expect(await second).toMatchObject({ ok: true, changed: ["maxBodyBytes"] });
});

test("a bug in a reload is an internal error for whoever asked, not for the process", async () => {
  const { held, reloader, turns } = stage();
  const first = reloader.to(settingsOf(1));
  await turns();
  held[0]?.reject(new Error("a secret detail"));
  expect(await first).toMatchObject({ ok: false, errors: ["an internal error"] });
});

test("closing waits for the reload in progress, and none begins afterwards", async () => {
  const { asked, held, reloader, turns } = stage();
  const running = reloader.to(settingsOf(1));
  await turns();
  let isClosed = false;
  const closed = reloader.close().then(() => {
    isClosed = true;
  });
  const late = reloader.to(settingsOf(2));
  await turns();
  expect(isClosed).toBe(false);
  held[0]?.resolve();
  expect((await running).ok).toBe(true);
  await closed;
  expect((await late).errors).toEqual(["the gateway is draining, so nothing is reloaded"]);
  expect(asked).toEqual([1]);
});

test("a file that changes during a drain and cannot be put into use is an error in the log, and no more", async () => {
  const { held, reloader, files, kept, turns } = stage();
  await reloader.close();
  files.onChange();
  held[0]?.reject(new NotPreparedError("a worker could not prepare the configuration"));
  await turns();
  expect(kept.lines().map(({ msg }) => msg)).toEqual(["internal error"]);
});

test("what comes back after a trial is written with the keys under reload that were read last", async () => {
  const [first, tried] = [
    "maxBodyBytes: 1MiB\nreload: { watch: false }",
    "maxBodyBytes: 2MiB\nreload: { trial: { confirmWithin: 5m } }",
  ];
  const { held, reloader, turns } = stage(sourceOf(first, first, tried));
  const inForce = () => {
    const { maxBodyBytes, reload } = effective(schema, reloader.written.raw?.root) as Record<string, unknown>;
    return [maxBodyBytes, reload];
  };
  const trial = { confirmWithin: "5m", unlessRefused: null, unconfirmed: "takeBack" };
  await reloader.start();
  const reloaded = reloader.again("signal");
  await turns();
  held[0]?.resolve();
  await reloaded;
  expect(reloader.trial).toMatchObject({ changed: ["maxBodyBytes"] });
  const taken = reloader.takeBack();
  await turns();
  held[1]?.resolve();
  expect(await taken).toMatchObject({ ok: true, changed: ["maxBodyBytes"] });
  expect(inForce()).toEqual(["1MiB", { watch: true, trial }]);
});

test("a watched file that could not be put into force for another reason than what it says is tried again", async () => {
  const file = join(scratchFolder(cleanup), "headgate.yaml");
  const write = (text: string) => writeFileSync(file, text);
  const source = settingsSource({ file, overrides: [] }, file, testIo());
  write("maxBodyBytes: 1MiB");
  const { asked, held, reported, reloader, carrier } = stage(source, new FileWatcher(5));
  await reloader.start();
  cleanup(() => reloader.close());
  write("maxBodyBytes: 2MiB");
  await expect.poll(() => held.length).toBe(1);
  held[0]?.reject(new NotPreparedError("a worker has ended"));
  await expect.poll(() => held.length).toBe(2);
  held[1]?.resolve();
  await expect.poll(() => carrier.settings.maxBodyBytes).toBe(2 * 1024 * 1024);
  expect(asked).toEqual([2 * 1024 * 1024, 2 * 1024 * 1024]);
  expect(reported).toEqual([
    ["file", false],
    ["file", true],
  ]);
});
