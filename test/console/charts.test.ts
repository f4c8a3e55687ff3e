// What the console draws of the last minutes, from what the real gateway has counted.
import type { Locator, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
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
    const chart = page.getByRole("img", {
      name: /^Memory over the last 15 minutes; now: resident [1-9]\d* MiB, in heaps/,
    });
    await chart.waitFor(stepTimeout);
    const legend = await legendOf(page, "Memory");
    const [resident = 0, heaps = 0] = ["resident", "in heaps"].map((name) => Number.parseFloat(legend.get(name) ?? ""));
    expect(resident).toBeGreaterThan(heaps);
    expect(heaps).toBeGreaterThan(5);
  });

  test("a shadow is drawn beside what is enforced, with one scale, and says what it would refuse", async () => {
    const gateway = await startConsole(
      cleanup,
      "  - { name: small, limit: 3, window: 1h }\n  - { name: watched, limit: 1, window: 1h, mode: shadow }\n",
    );
    await gateway.ask("203.0.113.7", 5);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.getByRole("link", { name: "Policies" }).click();
    const [enforced, shadows] = ["Enforced", "Shadows"].map((kind) => {
      return page.getByRole("region", { name: `${kind}, in the last 15 minutes` });
    }) as [Locator, Locator];
    await enforced.getByText("40 % refused in 15 minutes").waitFor(stepTimeout);
    await shadows.getByText("80 % would be refused in 15 minutes").waitFor();
    expect(await enforced.getByRole("heading").allTextContents()).toEqual(["small "]);
    expect(await shadows.getByRole("heading").allTextContents()).toEqual(["watched shadow"]);
    expect([...(await legendOf(page, "small")).keys()]).toEqual(["admitted", "throttled"]);
    expect([...(await legendOf(page, "watched")).keys()]).toEqual(["admitted", "would throttle"]);
    const scales = await page.locator(".plot .y.top").allTextContents();
    expect([scales.length, new Set(scales).size]).toEqual([2, 1]);
    expect(scales[0]).toMatch(/^[\d.]+\/s$/);
    // Its past is still there when a reload has changed the policies.
    gateway.write("  - { name: small, limit: 9, window: 1h }\n  - { name: other, limit: 1, window: 1h }\n");
    expect((await call(gateway.admin.port, "POST", "/api/reload", { body: {} })).status).toBe(200);
    const chart = page.getByRole("region", { name: "The last 15 minutes" });
    await chart.getByText("40 % refused in 15 minutes").waitFor(stepTimeout);
    await chart.getByText("not asked in 15 minutes").waitFor();
  });
});
