// The files of the admin side and what carries the traffic come into force together, or not at all.
import { expect, test } from "vitest";
import type { Files } from "../../src/core/file-group.ts";
import type { AdminSettings } from "../../src/core/settings.ts";
import { openAdminSide } from "../../src/gateway/control/admin-side.ts";
import { RuleBook } from "../../src/gateway/rule-book.ts";
import { FakeClock } from "../support/clock.ts";
import { testSettings } from "../support/gateway.ts";
import { keptLog } from "../telemetry/lines.ts";

type SideOptions = Parameters<typeof openAdminSide>[1];

/** An admin side with workers that do what a test wants, and files that are open until they are closed. */
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
  const clock = new FakeClock();
  const side = await openAdminSide(admin("/old"), {
    ...{ clock, log: keptLog().log, files, recent: null, clients: null, survivesRestart: false, drain: () => {} },
    ...{ version: "0.0.0-test", nodeVersion: "0.0.0" },
    rules: new RuleBook({ clock, restored: [], survivesRestart: false }),
    workers: { settings, replace, listedTokens: () => null },
  } as unknown as SideOptions);
  const reload = (tokensFile: string) => side.besideWorkers().replace({ ...settings, admin: admin(tokensFile) });
  return { side, opened, reload };
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
  const { side, opened, reload } = await open(async () => ({ refused: [], changed: [] }));
  await reload("/new");
  expect(opened).toEqual(["/new"]);
  await reload("/new");
  expect(opened).toEqual(["/new"]);
  await side.close();
  expect(opened).toEqual([]);
});
