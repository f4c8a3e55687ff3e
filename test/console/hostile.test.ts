// What clients and other operators choose is shown as text: nothing of it runs, wherever it appears.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

/** Each would set `ran` if it ran, in markup, in an attribute, in an address or in a template. */
const hostile = [
  "<script>ran=1</script>",
  "<img src=x onerror=ran=1>",
  "<svg onload=ran=1>",
  "'\"><iframe srcdoc='<script>parent.ran=1</script>'>",
  "javascript:ran=1",
  "data:text/html,<script>ran=1</script>",
  "</title></style></textarea><script>ran=1</script>",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: so that it would run where a template is made of it.
  "${ran=1}",
  "{{constructor.constructor('ran=1')()}}",
  '{"constructor":null,"type":"script","props":{"dangerouslySetInnerHTML":{"__html":"<img src=x onerror=ran=1>"}}}',
  "\u202e\u2028<a href=javascript:ran=1 autofocus onfocus=ran=1>",
  "__proto__",
];

const policies = "  - { name: small, limit: 3, window: 1h }\n";

describe.skipIf(noBrowser)("hostile text", { timeout: 60_000 }, () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  async function expectOnlyText(page: Page): Promise<void> {
    expect(
      await page.evaluate("[globalThis.ran, document.querySelectorAll('iframe, img, object, embed, base').length]"),
    ).toEqual([undefined, 0]);
    expect(
      await page.evaluate("[...document.querySelectorAll('a')].filter((link) => link.protocol !== 'http:').length"),
    ).toBe(0);
    expect(await page.evaluate("document.querySelectorAll('script').length")).toBe(1);
  }

  test("in paths, header values, notes, ids and the address of the page, it is shown and does not run", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    for (const [i, text] of hostile.entries()) {
      const body = { client: `203.0.113.${i}`, action: "block", for: "1h", note: text };
      expect((await call(gateway.admin.port, "PUT", `/api/rules/r${i}`, { body })).status).toBe(201);
      const path = `/nowhere/${encodeURI(text)}`;
      const agent = { "user-agent": encodeURI(text), "x-request-id": encodeURIComponent(text) };
      await gateway.ask(`198.51.100.${i}`, 1, { path, headers: agent });
    }
    await page
      .getByRole("row", { name: /198\.51\.100\./ })
      .first()
      .waitFor();
    await expectOnlyText(page);
    await page.evaluate('location.hash = "#/rules"');
    for (const text of hostile) await page.getByRole("cell", { name: text }).first().waitFor();
    await expectOnlyText(page);
    for (const [i, text] of hostile.entries()) {
      const view = ["clients", "requests", "runbook"][i % 3];
      await page.evaluate(`location.hash = ${JSON.stringify(`#/${view}/${encodeURIComponent(text)}`)}`);
      await expect.poll(() => page.title()).toContain(text);
      await expectOnlyText(page);
    }
  });

  test("in every text that the API could answer, it is shown and does not run", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("203.0.113.7", 5);
    const body = { client: "203.0.113.7", action: "exempt", for: "1h", note: "a note" };
    expect((await call(gateway.admin.port, "PUT", "/api/rules/a", { body })).status).toBe(201);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    // Each field gets another text in each round.
    for (const round of [1, 2, 3]) {
      const texts = hostile.map((text) => text.replaceAll("ran=1", `ran=${round}`));
      let next = round;
      await page.unroute(/api/);
      // Not the stream.
      await page.route(/\/api\/(?!events)/, async (route) => {
        const response = await route.fetch();
        const json = replaceTexts(await response.json(), () => texts[next++ % texts.length] ?? "");
        await route.fulfill({ response, json });
      });
      for (const view of ["now", "clients", "clients/client%3A203.0.113.7", "rules", "policies", "configuration"]) {
        await page.evaluate(`location.hash = "#/${view}"`);
        // Then the page asks for everything anew.
        await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
        // Where nothing is wrong, the first view shows numbers alone, and the frame who is signed in.
        const shown = page.locator(view === "now" ? "header" : "#main");
        await expect.poll(() => shown.textContent()).toContain(`ran=${round}`);
        await expectOnlyText(page);
      }
    }
  });
});

/** Replaces every text but instants, and those by which the page chooses what to draw. */
function replaceTexts(value: unknown, text: () => string, key = ""): unknown {
  if (typeof value === "string") {
    const isChosen = ["state", "role", "kind", "action", "outcome", "mode", "enforcement"].includes(key);
    return isChosen || /^\d{4}-\d\d-\d\dT/.test(value) ? value : text();
  }
  if (Array.isArray(value)) return value.map((each) => replaceTexts(each, text, key));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, replaceTexts(each, text, name)]));
}
