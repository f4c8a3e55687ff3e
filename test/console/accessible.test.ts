// Whether the console can be used by everyone: axe-core's rules for WCAG 2.2, in both colour schemes, and the keyboard alone.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openPage, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** In a window as wide as a phone too, where other rules of the style hold. */
async function expectAccessible(page: Page): Promise<void> {
  await page.setViewportSize({ width: 390, height: 844 });
  await expectNoViolations(page);
  await page.setViewportSize({ width: 1280, height: 720 });
  await expectNoViolations(page);
}

async function expectNoViolations(page: Page): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    // Nothing but colours differs in the second.
    const rules = colorScheme === "light" ? "" : ', runOnly: ["color-contrast"]';
    const { violations } = await page.evaluate<AxeResults>(`axe.run({ resultTypes: ["violations"]${rules} })`);
    const found = violations.map(({ id, nodes }) => ({
      id,
      where: nodes.map(({ html, failureSummary }) => [html, failureSummary]),
    }));
    expect([page.url(), colorScheme, found]).toEqual([page.url(), colorScheme, []]);
  }
}

describe.skipIf(noBrowser)("the console", { timeout: 60_000 }, () => {
  const cleanup = useCleanup();
  const browser = useBrowser();
  const policies = "  - { name: small, limit: 3, window: 1h }\n";

  test("axe-core finds nothing, in light and dark, wide and on a phone, before and after signing in", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("203.0.113.7", 5);
    // Each view shows that a reload is on trial.
    gateway.write(policies.replace("limit: 3", "limit: 4"));
    expect(await gateway.reloadOnTrial({ confirmWithin: "1h", unless: { refusedShare: 0.5 } })).toBe(200);
    const out = await openPage(cleanup, await browser(), gateway);
    await out.getByLabel("Token of the admin API").waitFor();
    // By the debugger, which the page's policy does not concern.
    await out.evaluate(axe);
    await expectAccessible(out);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.evaluate(axe);
    for (const view of views) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await page.locator("#main :is(table, form, svg)").first().waitFor({ state: "attached" });
      await expectAccessible(page);
    }
    await page.evaluate('location.hash = "#/rules"');
    await page.getByRole("button", { name: "Limit …" }).click();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Take back …" }).click();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Take back", exact: true }).click();
    await page.getByText("the reload on trial was taken back by ops").waitFor();
    await page.evaluate('location.hash = "#/configuration"');
    await page.getByRole("button", { name: "Reload …" }).click();
    await page.getByLabel("On trial").check();
    await expectAccessible(page);
  });

  test("by keyboard alone, the first stop skips to the content", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("main");
  });
});

const views = [
  "#/now",
  "#/clients",
  "#/clients/client%3A203.0.113.7",
  "#/rules",
  "#/requests",
  "#/policies",
  "#/configuration",
  "#/try",
  "#/runbook/During an attack",
];
