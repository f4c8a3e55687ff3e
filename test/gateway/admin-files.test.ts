// The files of the admin listener and what carries the traffic come into force together, or not at all.
import { expect, test } from "vitest";
import { FileWatcher } from "../../src/config/files.ts";
import type { Files } from "../../src/core/file-group.ts";
import type { AdminSettings } from "../../src/core/settings.ts";
import { openAdminFiles } from "../../src/gateway/control/admin-files.ts";
import { NotPreparedError } from "../../src/gateway/open-counters.ts";
import { Reloader } from "../../src/gateway/reloader.ts";
import { FakeClock } from "../support/clock.ts";
import { testSettings } from "../support/gateway.ts";
import { keptLog } from "../telemetry/lines.ts";

type Replaced = ConstructorParameters<typeof Reloader>[1];

/** Files of the admin listener beside workers that do what a test wants, and files that are open until they are closed. */
async function open(replace: () => Promise<unknown>) {
  const settings = testSettings("http://127.0.0.1:9", {});
  const admin = (tokensFile: string): AdminSettings => ({ ...settings.admin, tokensFile });
  const opened: string[] = [];
  const files: Files = {
    async open({ paths }) {
      const path = paths["admin.tokensFile"] ?? "";
      opened.push(path);
      const close = (): void => void opened.splice(opened.indexOf(path), 1);
      return { value: null as never, isCurrent: true, onChange: () => {}, close };
    },
  };
  const common = { clock: new FakeClock(), log: keptLog().log };
  const adminFiles = await openAdminFiles(admin("/old"), { ...common, files });
  const workers = { settings, replace, listedTokens: () => null } as unknown as Replaced;
  const telemetry = { reloaded() {}, trialChanged() {} };
  const reloader = new Reloader(settings, workers, {
    ...{ ...common, adminFiles, telemetry },
    files: new FileWatcher(),
    source: null,
  });
  const reload = (tokensFile: string) => reloader.to({ ...settings, admin: admin(tokensFile) });
  return { adminFiles, opened, reload };
}

test("a reload that the workers refuse keeps the files in force, and closes those that were opened for it", async () => {
  const openMeanwhile: string[] = [];
  const { opened, reload } = await open(async () => {
    openMeanwhile.push(...opened);
    throw new NotPreparedError("not prepared");
  });
  expect(await reload("/new")).toMatchObject({ ok: false, errors: ["not prepared"] });
  expect(openMeanwhile).toEqual(["/old", "/new"]);
  expect(opened).toEqual(["/old"]);
});

test("a reload that the workers take closes the files that it replaces, and keeps those that are the same", async () => {
  const { adminFiles, opened, reload } = await open(async () => ({ refused: [], taken: [] }));
  expect(await reload("/new")).toMatchObject({ ok: true });
  expect(opened).toEqual(["/new"]);
  await reload("/new");
  expect(opened).toEqual(["/new"]);
  adminFiles.close();
  expect(opened).toEqual([]);
});
