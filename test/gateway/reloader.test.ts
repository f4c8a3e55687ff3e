// Reloads, one at a time, with a carrier that a test holds back.
import { expect, test } from "vitest";
import { FileWatcher } from "../../src/config/files.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { ReloadCause, ReloadResult } from "../../src/core/reload.ts";
import type { Settings } from "../../src/core/settings.ts";
import { NotPreparedError } from "../../src/gateway/open-counters.ts";
import { Reloader } from "../../src/gateway/reloader.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { testSettings } from "../support/gateway.ts";

const noFiles = { taken: [], refused: [] };
const settingsOf = (maxBodyBytes: number): Settings => ({ ...testSettings("http://127.0.0.1:9"), maxBodyBytes });

/** A reloader of a carrier whose `replace` waits until the test lets it go on. */
function stage() {
  const asked: (number | null)[] = [];
  const held: PromiseWithResolvers<void>[] = [];
  const reported: [ReloadCause, boolean][] = [];
  const carrier = {
    settings: settingsOf(0),
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
  const reloader = new Reloader(carrier.settings, carrier, {
    files: new FileWatcher(),
    log: createLog({ level: "silent", clock: systemClock, destination: { write() {}, flush: (done) => done?.() } }),
    clock: systemClock,
    telemetry: {
      reloaded: (result: ReloadResult, cause: ReloadCause) => void reported.push([cause, result.ok]),
      trialChanged() {},
    },
    source: null,
  });
  const turns = () => new Promise((resolve) => setImmediate(resolve));
  return { asked, held, reported, reloader, carrier, turns };
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
