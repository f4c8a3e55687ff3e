// What the console shows of a reload on trial: what is on trial, its clock and what was judged, in every view; the buttons that
// end it; and why it ended.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

const policies = "  - { name: small, limit: 50, window: 1h }\n";
const strict = "  - { name: small, limit: 1, window: 1h }\n";
const client = "203.0.113.7";

describe.skipIf(noBrowser)("a reload on trial, in the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  async function stage() {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    const banner = page.getByRole("region", { name: "Reload on trial" });
    const ended = page.getByRole("status");
    return { gateway, page, banner, ended };
  }

  test("is begun in the dialog, shown in every view, and stays when it is confirmed by the button", async () => {
    const { gateway, page, banner, ended } = await stage();
    await page.evaluate('location.hash = "#/configuration"');
    gateway.write(strict);
    await page.getByRole("button", { name: "Reload …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("row", { name: "policies.small.limit 50 1" }).waitFor();
    await dialog.getByText("Throttled at once: nobody.").waitFor();
    await dialog.getByLabel("On trial").check();
    await dialog.getByLabel("Confirm within").selectOption("15m");
    await dialog.getByLabel("Unless refused").fill("60");
    await dialog.getByRole("button", { name: "Reload", exact: true }).click();
    await banner.getByText("On trial: policies.small.limit 50 → 1.").waitFor();
    await banner.getByText(/begun by ops at \d\d:\d\d:\d\d\./).waitFor();
    const timer = banner.getByRole("timer");
    expect(await timer.textContent()).toMatch(/^1[45]:\d\d$/);
    await banner.getByText(/left, until \d\d:\d\d:\d\d; then the configuration from before comes back/).waitFor();
    await banner.getByText("Taken back above 60 %, from 20 refused on.").waitFor();
    await page.getByRole("heading", { name: "by ops on trial" }).waitFor();
    await page.getByRole("row", { name: /policies\.small\.limit 50 1/ }).waitFor();
    expect(await page.getByText("New contents").count()).toBe(0);
    // What is judged so far comes with the next status.
    expect(await gateway.ask(client, 3)).toEqual([200, 429, 429]);
    await banner.getByText("Refused 2 of 3 requests (67 %)").waitFor();
    await banner.getByText(`Throttled by its policies so far: ${client} (2 ×).`).waitFor();
    const first = await timer.textContent();
    await expect.poll(() => timer.textContent()).not.toBe(first);
    for (const view of ["now", "clients", "rules", "requests", "policies", "try"]) {
      await page.evaluate(`location.hash = "#/${view}"`);
      await page.locator(`nav a[aria-current][href="#/${view}"]`).waitFor();
      await banner.waitFor();
    }
    await banner.getByRole("button", { name: "Confirm …" }).click();
    await dialog.getByText("The new configuration stays. From now on nothing takes it back by itself.").waitFor();
    await dialog.getByText("It holds at this gateway").waitFor();
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await ended.getByText("the reload on trial was confirmed by ops").waitFor();
    await banner.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Healthy" }).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await ended.getByText("the reload on trial was confirmed").waitFor({ state: "detached" });
    expect(await gateway.ask("203.0.113.8", 2)).toEqual([200, 429]);
    await page.evaluate('location.hash = "#/configuration"');
    await page.getByText("the last reload on trial was confirmed by ops").waitFor();
  });

  test("comes back when it is taken back by the button, which the problems say until the file is used again", async () => {
    const { gateway, page, banner, ended } = await stage();
    expect(await gateway.ask(client, 2)).toEqual([200, 200]);
    gateway.write(strict);
    expect(await gateway.reloadOnTrial({ confirmWithin: "1h" })).toBe(200);
    await banner.getByText("It is not judged").waitFor();
    expect(await gateway.ask(client)).toEqual([429]);
    await banner.getByRole("button", { name: "Take back …" }).click();
    const dialog = page.getByRole("dialog", { name: "Take the reload on trial back?" });
    await dialog.getByText("policies.small.limit").waitFor();
    await dialog.getByRole("button", { name: "Take back" }).click();
    await ended.getByText("the reload on trial was taken back by ops").waitFor();
    await page.locator(".problems + .trial-end .problem").waitFor();
    expect(await gateway.ask(client)).toEqual([200]);
    const problem = page.getByRole("listitem").filter({ hasText: "The file has other values than are in force" });
    await problem.getByText("was taken back by ops").waitFor();
    await problem.getByRole("link", { name: "What to do" }).click();
    await page.getByRole("heading", { name: "HeadgateReloadTakenBack" }).waitFor();
    await page.evaluate('location.hash = "#/requests"');
    await page.locator("a.id").first().click();
    await page.getByText("This policy was then on trial, with the limit 1; before it was 50.").waitFor();
    await page.getByRole("link", { name: "forgive it" }).click();
    await page.getByRole("heading", { name: client }).waitFor();
    await page.evaluate('location.hash = "#/configuration"');
    await page.getByRole("heading", { name: "because a reload on trial was taken back" }).waitFor();
    await page.getByRole("row", { name: /policies\.small\.limit 1 50/ }).waitFor();
    const stale = /^policies\.small\.limit 50 from before the trial; the file may have another value/;
    const set = page.getByRole("region", { name: "Values that were set" });
    await set.getByText("limit: 50  # from before the trial; the file may have another value").waitFor();
    await page.getByLabel("Filter").fill("small");
    await page.getByRole("row", { name: stale }).waitFor();
    await page.getByRole("row", { name: /^policies\.small\.window 1h file: headgate\.yaml/ }).waitFor();
    gateway.write(policies);
    expect(await gateway.reloadOnTrial({})).toBe(200);
    await page.getByRole("link", { name: "Healthy" }).waitFor();
    await ended.getByText(/taken back by ops\.\s+The configuration from before is in force again\.$/).waitFor();
  });

  test("is taken back by itself because of the harm it does, and the page says how much that was", async () => {
    const { gateway, page, banner, ended } = await stage();
    gateway.write(strict);
    expect(await gateway.reloadOnTrial({ confirmWithin: "1h", unless: { refusedShare: 0.05 } })).toBe(200);
    await banner.waitFor();
    expect((await gateway.ask(client, 30)).filter((status) => status === 429).length).toBeGreaterThanOrEqual(20);
    await ended.getByText(/was taken back, because it refused 2\d of \d\d requests that would have been/).waitFor();
    await banner.waitFor({ state: "detached" });
    await page.getByText("The configuration from before is in force again; the file still has the other").waitFor();
    await page.getByRole("link", { name: "1 problem" }).waitFor();
    expect(await gateway.ask("203.0.113.8", 2)).toEqual([200, 200]);
  });

  test("ends meanwhile: a dialog about it changes no other one", async () => {
    const { gateway, page, banner } = await stage();
    gateway.write(strict);
    await gateway.reloadOnTrial({ confirmWithin: "1h" });
    await banner.getByRole("button", { name: "Confirm …" }).click();
    gateway.write("  - { name: small, limit: 2, window: 1h }\n");
    await gateway.reloadOnTrial({ confirmWithin: "15m" });
    await banner
      .getByRole("timer")
      .filter({ hasText: /^1[45]:/ })
      .waitFor();
    await page.getByRole("button", { name: "Confirm", exact: true }).click();
    await page.getByRole("alert").getByText("What was on trial is over.").waitFor();
    expect(gateway.trial.trial?.confirmWithinMs).toBe(900_000);
  });
});
