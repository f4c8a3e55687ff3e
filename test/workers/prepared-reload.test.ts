// What one thread does with a reload that takes longer than the main thread waits.
import { expect, test } from "vitest";
import type { Settings } from "../../src/core/settings.ts";
import type { Prepared } from "../../src/gateway/engine.ts";
import { PreparedReload } from "../../src/gateway/threads/prepared-reload.ts";
import { turns } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";

/** An engine that has prepared a configuration when the test says so. Configurations are told apart by `maxBodyBytes`. */
function stage() {
  const happened: string[] = [];
  const held: PromiseWithResolvers<void>[] = [];
  const engine = {
    async prepare({ maxBodyBytes }: Settings): Promise<Prepared> {
      happened.push(`prepare ${maxBodyBytes}`);
      const waiting = Promise.withResolvers<void>();
      held.push(waiting);
      await waiting.promise;
      const tell = (what: string) => () => void happened.push(`${what} ${maxBodyBytes}`);
      return { commit: tell("commit"), drop: tell("drop") };
    },
  };
  const files = { offer() {}, take: () => ({ taken: [], refused: [] }), drop() {} };
  const reload = new PreparedReload(engine, files);
  const prepare = (maxBodyBytes: number | null): Promise<void> => {
    const settings = maxBodyBytes === null ? null : { ...testSettings(deadUrl), maxBodyBytes };
    const chosen = { slots: [], kept: [] };
    return reload.prepare({ settings, chosen, onTrial: null, contents: new Map(), logsWarnings: false });
  };
  return { happened, held, reload, prepare };
}

test("a configuration that is ready after it was dropped does not come into force with the next file", async () => {
  const { happened, held, reload, prepare } = stage();
  const late = prepare(1);
  await turns(1);
  reload.drop();
  held[0]?.resolve();
  await late;
  await prepare(null);
  reload.commit();
  expect(happened).toEqual(["prepare 1", "drop 1"]);
});

test("new contents of files do not wait for a configuration that was dropped", async () => {
  const { happened, held, reload, prepare } = stage();
  const late = prepare(1);
  await turns(1);
  reload.drop();
  await prepare(null);
  reload.commit();
  held[0]?.resolve();
  await late;
  expect(happened).toEqual(["prepare 1", "drop 1"]);
});

test("the next configuration is prepared when the one that was dropped is over, and comes into force alone", async () => {
  const { happened, held, reload, prepare } = stage();
  const late = prepare(1);
  await turns(1);
  reload.drop();
  const next = prepare(2);
  await turns(1);
  held[0]?.resolve();
  await late;
  await turns(1);
  held[1]?.resolve();
  await next;
  reload.commit();
  reload.commit();
  expect(happened).toEqual(["prepare 1", "drop 1", "prepare 2", "commit 2"]);
});
