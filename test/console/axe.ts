// Whether what a page shows can be used by everyone: axe-core's rules for WCAG 2.2.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** By axe-core, in both colour schemes. In a window as wide as a phone too, where other rules of the style hold. */
export async function expectAccessible(page: Page): Promise<void> {
  // By the debugger, which the page's policy does not concern.
  await page.evaluate(axe);
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
