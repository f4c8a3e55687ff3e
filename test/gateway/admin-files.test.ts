// The files of the admin listener and what carries the traffic come into force together, or not at all.
import { expect, test } from "vitest";
import type { Files } from "../../src/core/file-group.ts";
import type { AdminSettings } from "../../src/core/settings.ts";
import { openAdminFiles, replacedTogether } from "../../src/gateway/control/admin-files.ts";
import { FakeClock } from "../support/clock.ts";
import { testSettings } from "../support/gateway.ts";
import { keptLog } from "../telemetry/lines.ts";

type Replaced = Parameters<typeof replacedTogether>[0];

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
  const adminFiles = await openAdminFiles(admin("/old"), { clock: new FakeClock(), log: keptLog().log, files });
  const workers = { settings, replace, listedTokens: () => null } as unknown as Replaced;
  const together = replacedTogether(workers, adminFiles);
  const reload = (tokensFile: string) => together.replace({ ...settings, admin: admin(tokensFile) });
  return { adminFiles, opened, reload };
}

test("a reload that the workers refuse keeps the files in force, and closes those that were opened for it", async () => {
  const openMeanwhile: string[] = [];
  const { opened, reload } = await open(async () => {
    openMeanwhile.push(...opened);
    throw new Error("not prepared");
  });
  await expect(reload("/new")).rejects.toThrow("not prepared");
  expect(openMeanwhile).toEqual(["/old", "/new"]);
  expect(opened).toEqual(["/old"]);
});

test("a reload that the workers take closes the files that it replaces, and keeps those that are the same", async () => {
  const { adminFiles, opened, reload } = await open(async () => ({ refused: [], changed: [] }));
  await reload("/new");
  expect(opened).toEqual(["/new"]);
  await reload("/new");
  expect(opened).toEqual(["/new"]);
  adminFiles.close();
  expect(opened).toEqual([]);
});
