// Whether the console can be used by everyone: axe-core's rules for WCAG 2.2, in both colour schemes, and the keyboard alone.
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { expectAccessible } from "./axe.ts";
import { noBrowser, openPage, openSignedIn, showView, startConsole, useBrowser } from "./console-stage.ts";

// Each view is judged six times, half a minute in all on a machine that does nothing else.
describe.skipIf(noBrowser)("the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();
  const policies = `  - { name: small, limit: 3, window: 1h }
  - { name: watched, limit: 1, window: 1h, mode: shadow }
  - { name: monthly, limit: 9, per: month }
`;

  test("axe-core finds nothing, in light and dark, wide and on a phone, before and after signing in", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("203.0.113.7", 5);
    const body = { client: "203.0.113.9", action: "block", for: "1h", note: "scrapes" };
    expect((await call(gateway.admin.port, "PUT", "/api/rules/a", { body })).status).toBe(201);
    await gateway.ask("203.0.113.9");
    // Each view shows that a reload is on trial.
    gateway.write(policies.replace("limit: 3", "limit: 4"));
    expect(await gateway.reloadOnTrial({ confirmWithin: "1h", unless: { refusedShare: 0.5 } })).toBe(200);
    const out = await openPage(cleanup, await browser(), gateway);
    await out.getByLabel("Token of the admin API").waitFor();
    await expectAccessible(out);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    for (const view of views) {
      await showView(page, view);
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

/** The page begins with the last. */
const views = [
  "#/clients",
  "#/clients/client%3A203.0.113.7",
  "#/clients/client%3A203.0.113.9",
  "#/rules",
  "#/requests",
  "#/policies",
  "#/configuration",
  "#/gateways",
  "#/try",
  "#/runbook/During an attack",
  "#/now",
];
