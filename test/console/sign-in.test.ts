// How a person signs in to the console, and where the token is then: in the memory of the page, and nowhere else.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openPage, openSignedIn, readToken, startConsole, useBrowser, writeToken } from "./console-stage.ts";

describe.skipIf(noBrowser)("signing in", { timeout: 60_000 }, () => {
  const cleanup = useCleanup();
  const browser = useBrowser();
  const policies = "  - { name: small, limit: 3, window: 1h }\n";

  test("a wrong token is refused with the reason, a right one shows who is signed in, and signing out forgets it", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway);
    const field = page.getByLabel("Token of the admin API");
    await field.fill("guess");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "not listed" }).waitFor();
    await field.fill(readToken);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("dashboard (may read)").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await field.waitFor();
    expect(await field.inputValue()).toBe("");
    await page.reload();
    await field.waitFor();
  });

  test("a token in the address is taken out of it at once, and is not stored or logged", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    expect(page.url()).toBe(`${gateway.adminUrl}/console/`);
    const kept = await page.evaluate(`(async () => JSON.stringify([
      { ...localStorage }, { ...sessionStorage }, document.cookie, history.state, document.documentElement.outerHTML,
      await indexedDB.databases(), await caches.keys(),
    ]))()`);
    expect(kept).toContain("Headgate");
    expect(kept).not.toContain(writeToken);
    expect(JSON.stringify(gateway.logLines)).not.toContain(writeToken);
    await page.goBack();
    expect(page.url()).not.toContain(writeToken);
  });

  test("a token that comes into the address of an open page replaces the one before", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway, readToken);
    await page.getByText("dashboard (may read)").waitFor();
    await page.evaluate(`location.hash = "token=${writeToken}"`);
    await page.getByText("ops (may write)").waitFor();
    expect(page.url()).not.toContain(writeToken);
  });
});
