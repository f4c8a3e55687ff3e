// What the console draws of the last minutes, from what the real gateway has counted.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

/** A step of the history is over within 5 s, and the page asks for it within 5 s more. */
const stepTimeout = { timeout: 20_000 };

/** What a legend says, by name. */
async function legendOf(page: Page, title: string): Promise<Map<string, string>> {
  const items = await page.getByRole("figure", { name: title }).locator(".legend li").allTextContents();
  return new Map(items.map((text) => /^(.+?) ([\d–].*)$/.exec(text.trim())?.slice(1) as [string, string]));
}

describe.skipIf(noBrowser)("the charts of the console", { timeout: 60_000 }, () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("the first view draws the memory of the process and of its heaps", async () => {
    const gateway = await startConsole(cleanup, "  - { name: small, limit: 3, window: 1h }\n");
    const page = await openSignedIn(cleanup, await browser(), gateway);
    const chart = page.getByRole("img", { name: /^Memory over the last 15 minutes; now: resident \d+ MiB, in heaps/ });
    await chart.waitFor(stepTimeout);
    const legend = await legendOf(page, "Memory");
    const [resident = 0, heaps = 0] = ["resident", "in heaps"].map((name) => Number.parseFloat(legend.get(name) ?? ""));
    expect(resident).toBeGreaterThan(heaps);
    expect(heaps).toBeGreaterThan(5);
  });
});
