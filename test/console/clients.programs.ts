// What a person on call does with the console: sees who is throttled and why, forgives, blocks, and takes the block away.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import {
  type ConsoleGateway,
  noBrowser,
  openSignedIn,
  readToken,
  showView,
  startConsole,
  useBrowser,
} from "./console-stage.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n  - { name: daily, limit: 1000, per: day }\n";
const client = "203.0.113.7";

describe.skipIf(noBrowser)("the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("a client that is throttled is seen, explained and forgiven, and its next request is admitted", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    expect(await gateway.ask(client, 4)).toEqual([200, 200, 200, 429]);
    // On the first view, as an event.
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.7/ }).waitFor();
    await page.getByRole("link", { name: "Clients" }).click();
    const row = page.getByRole("row", { name: /203\.0\.113\.7 small 3 of 3 0 / });
    await row.waitFor();
    await row.getByRole("link", { name: client }).click();
    await page.getByRole("heading", { name: "small throttled" }).waitFor();
    await page.getByText("3 of 3 used, 0 left").waitFor();
    await page.getByText(/^next request admitted in 59 min .* \(.*\d\d:\d\d\)$/).waitFor();
    await page.getByRole("img", { name: "3 units in a window of 1 h" }).waitFor();
    // Why, in sentences.
    await page
      .getByRole("row", { name: /429 throttled/ })
      .getByRole("link")
      .last()
      .click();
    await page.getByRole("region", { name: "The request" }).getByText("all of it was used").waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "Forgive …" }).click();
    const dialog = page.getByRole("dialog", { name: `Forgive ${client}?` });
    await dialog.getByText("Its windows and periods are empty").waitFor();
    await dialog.getByRole("button", { name: "Forgive" }).click();
    await page
      .getByRole("status")
      .getByText(/^203\.0\.113\.7 is forgiven: 3 by small, 3 by \w+ are forgotten\.$/)
      .waitFor();
    await page.getByRole("heading", { name: "small admitted" }).waitFor();
    expect(await gateway.ask(client)).toEqual([200]);
    await page.getByText("1 of 3 used, 2 left").waitFor();
  });

  test("a block is made, felt, seen and removed; a limit is another one", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    await setRule(page, "Block", async () => {
      const ends = page.getByText(/^by itself at /).getByRole("time");
      const endsMs = async () => Date.parse(String(await ends.getAttribute("datetime")));
      const inAnHour = await endsMs();
      await page.getByLabel("For").selectOption("6h");
      await expect.poll(async () => Math.round((await endsMs()) - inAnHour) > 4.9 * 3_600_000).toBe(true);
      await page.getByLabel("For").selectOption("1h");
      await page.getByLabel("Note").fill("scrapes the accounts");
    });
    const row = page.getByRole("row", {
      name: /^203\.0\.113\.7 block .* \(in (1 h|59 min .*)\) ops, [\d:]+ scrapes the accounts block-203/,
    });
    await row.waitFor();
    expect(await gateway.ask(client)).toEqual([403]);
    const said = page.getByText(
      /Its requests get 403 by rule block-203\.0\.113\.7-.*, set by ops at .* ago\), until .* \(in .*\): scrapes the accounts\./,
    );
    await said.waitFor();
    await page.getByRole("row", { name: /403 blocked GET \/v2\/x/ }).waitFor();
    await page.getByRole("heading", { name: "small not asked: blocked" }).waitFor();
    await row.getByRole("button", { name: /Remove the rule block-203\.0\.113\.7-/ }).click();
    await page.getByText(`From the next request on, ${client} is blocked no more.`).waitFor();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    await row.waitFor({ state: "detached" });
    await said.waitFor({ state: "detached" });
    expect(await gateway.ask(client)).toEqual([200]);
    await setRule(page, "Limit", async () => {
      await page.getByLabel("Policy").selectOption("small");
      await page.getByLabel("New limit").fill("7");
    });
    await page.getByText("2 of 7 used, 5 left").waitFor();
    expect(gateway.logLines.filter(({ msg }) => msg === "admin call")).toMatchObject([
      { caller: "ops", status: 201 },
      { caller: "ops", status: 200 },
      { caller: "ops", status: 201 },
    ]);
  });

  test("who is blocked is in the list without use, is found by its address, and let in by its network", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("203.0.113.10");
    await block(gateway, "203.0.113.8/30");
    expect(await gateway.ask("203.0.113.9", 2)).toEqual([403, 403]);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    await page.evaluate('location.hash = "#/clients"');
    const unused = page.getByRole("row", { name: "203.0.113.9 blocked no policy is asked; refused 2 times of late" });
    await unused.waitFor();
    await page.getByRole("row", { name: "203.0.113.10 blocked small 1 of 3" }).waitFor();
    await page.getByLabel("Filter").fill("2001:db8::1");
    await page.getByText("Nothing is listed of 2001:db8::1 – open it as client").waitFor();
    await page.getByLabel("Filter").fill("alice");
    await page.getByText("Nothing is listed of alice – open it as token as subject").waitFor();
    await page.getByLabel("Filter").fill("203.0.113.11");
    await page.getByText("Nothing is listed of 203.0.113.11 – open it as client").getByRole("link").click();
    const blocked = page.getByText(
      /^blocked Its requests get 403 by rule a, set by ops at .* ago\), until .* \(in .*\)\.$/,
    );
    await blocked.waitFor();
    await page.getByRole("link", { name: "203.0.113.8/30" }).click();
    await page.getByRole("heading", { name: "203.0.113.8/30" }).waitFor();
    await blocked.waitFor();
    expect(await page.getByText("Nothing is counted").count()).toBe(0);
    await page.getByRole("button", { name: "Remove the rule a" }).first().click();
    await page.getByRole("button", { name: "Remove", exact: true }).click();
    // Seen for a while, and known after it to those who hear it.
    const done = page.locator(".done").getByText("203.0.113.8/30 is blocked no more.");
    await done.waitFor();
    await page.getByText("Nothing is counted for this key.").waitFor();
    await page.evaluate('location.hash = "#/clients"');
    await page.getByRole("row", { name: "203.0.113.10 small 1 of 3" }).waitFor();
    await unused.waitFor({ state: "detached" });
    await done.waitFor({ state: "detached" });
    await page.getByRole("status").getByText("203.0.113.8/30 is blocked no more.").waitFor();
  });

  test("a rule that could not be asked for when its dialog opened is removed when it can be", async () => {
    const gateway = await startConsole(cleanup, policies);
    await block(gateway, "203.0.113.8/30");
    const page = await openSignedIn(cleanup, await browser(), gateway);
    let isBusy = true;
    await page.route("**/api/rules/a", async (route) => {
      if (isBusy) await route.fulfill({ status: 503, json: { message: "busy", errors: [{ errMsg: "It is busy." }] } });
      else await route.continue();
    });
    await page.evaluate('location.hash = "#/rules"');
    await page.getByRole("button", { name: "Remove the rule a" }).click();
    const remove = page.getByRole("button", { name: "Remove", exact: true });
    await remove.click();
    await page.getByRole("alert").getByText("It is busy.").waitFor();
    isBusy = false;
    await remove.click();
    await page.getByText("No rules.").waitFor();
    expect(await gateway.ask("203.0.113.9")).toEqual([200]);
  });

  test("on a phone, no view is wider than the window, and a rule can be removed", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client, 4);
    await block(gateway, "203.0.113.8/30");
    await gateway.ask("203.0.113.9");
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.setViewportSize({ width: 390, height: 844 });
    for (const view of phoneViews) {
      await showView(page, `#/${view}`);
      const width = await page.evaluate("document.documentElement.scrollWidth");
      expect([view, width]).toEqual([view, 390]);
      if (view !== "rules" && !view.endsWith("9")) continue;
      const remove = page.getByRole("row").getByRole("button", { name: "Remove the rule a" });
      const box = await remove.boundingBox();
      expect((box?.x ?? 390) + (box?.width ?? 0)).toBeLessThan(390);
    }
    await page.setViewportSize({ width: 700, height: 844 });
    await page.evaluate('location.hash = "#/rules"');
    await page.getByRole("button", { name: "Remove the rule a" }).waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(700);
  });

  test("on a phone, all views can be reached, a row is a card with its names, and what acts is in reach of a thumb", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client, 4);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByText("ops (may write)").waitFor();
    const links = await page.getByRole("navigation", { name: "Views" }).getByRole("link").all();
    expect(links.length).toBe(8);
    for (const link of links) {
      const box = await link.boundingBox();
      expect((box?.x ?? 390) + (box?.width ?? 390)).toBeLessThanOrEqual(390);
    }
    await page.evaluate('location.hash = "#/clients"');
    const row = page.getByRole("row", { name: /203\.0\.113\.7 small 3 of 3 Left 0 / });
    await row.waitFor();
    const names = (await row.locator("td").all()).map((cell) => cell.getAttribute("data-name"));
    expect((await Promise.all(names)).join()).toBe("Policy,Used,Left,Free again,Throttled,Last admitted");
    for (const cell of await row.locator("th, td").all()) {
      const box = await cell.boundingBox();
      expect((box?.x ?? 390) + (box?.width ?? 390)).toBeLessThan(390);
    }
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    const box = await page.getByRole("button", { name: "Block …" }).boundingBox();
    expect([Number(box?.y) > 700, Number(box?.y) + Number(box?.height) < 844, Number(box?.height) >= 44]).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("many units at once have their number, and policies about something else are one line", async () => {
    const more =
      "  - { name: each, limit: 9, window: 1h, key: [token] }\n  - { name: too, limit: 9, window: 1h, key: [token] }\n";
    const gateway = await startConsole(cleanup, policies.replace("limit: 3", "limit: 90, cost: 2") + more);
    await gateway.ask(client, 9);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    await page.getByText("× 18", { exact: true }).waitFor();
    await page
      .getByText(/^2 policies count something else \(each, too\): requests with a token have keys of their own\.$/)
      .waitFor();
    expect(await page.getByRole("heading", { level: 2, name: "each" }).count()).toBe(0);
  });

  test("a rule is set for a network from the list of rules, by keyboard alone", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.evaluate('location.hash = "#/rules"');
    const open = page.getByRole("button", { name: "Block …" });
    // When the view has changed, the page moves the focus to it.
    await page.locator("#main:focus").waitFor();
    await open.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Block a client?" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    // A closed dialog has no role any more, but it is there until the page has heard of it.
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Block …");
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.type("203.0.113.0/24");
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: /^203\.0\.113\.0\/24 block/ }).waitFor();
    expect(await gateway.ask(client)).toEqual([403]);
  });

  test("what the gateway refuses is said in the dialog, and a rule about a trusted proxy needs one more step", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.evaluate('location.hash = "#/clients/client%3A127.0.0.1"');
    await page.getByRole("button", { name: "Block …" }).click();
    await page.getByRole("button", { name: "Block", exact: true }).click();
    await page.getByRole("alert").getByText("trusted").waitFor();
    await page.getByLabel("Set it all the same").check();
    await page.getByRole("button", { name: "Block", exact: true }).click();
    await page.getByRole("row", { name: /^127\.0\.0\.1 block/ }).waitFor();
  });

  test("what was refused before the page was opened is listed for its client, and what is refused now is added", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client, 5);
    await gateway.ask("203.0.113.8", 4);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    const rows = page.getByRole("region", { name: "Recent refusals" }).getByRole("row", { name: /429 throttled/ });
    await page.getByRole("row", { name: "2 429 throttled GET" }).waitFor();
    await gateway.ask(client);
    await page.getByRole("row", { name: "3 429 throttled GET" }).waitFor();
    expect(await rows.count()).toBe(1);
    await page.evaluate('location.hash = "#/clients/client%3A203.0.113.9"');
    await page.getByText("No refusals.").waitFor();
  });

  test("a token that may read sees all and has no button that changes anything", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client, 4);
    const page = await openSignedIn(cleanup, await browser(), gateway, readToken);
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    await page.getByText("3 of 3 used, 0 left").waitFor();
    await page.getByText("You may read and change nothing").waitFor();
    const buttons = await page.getByRole("button").allTextContents();
    expect(buttons).toEqual(["Sign out"]);
  });
});

const phoneViews = [
  ...["clients", "clients/client%3A203.0.113.7", "clients/client%3A203.0.113.9", "rules", "requests", "policies"],
  ...["configuration", "gateways", "try", "runbook/HeadgateDown", "now"],
];

async function block(gateway: ConsoleGateway, about: string): Promise<void> {
  const body = { client: about, action: "block", for: "1h" };
  expect((await call(gateway.admin.port, "PUT", "/api/rules/a", { body })).status).toBe(201);
}

async function setRule(page: Page, action: string, fill: () => Promise<void>): Promise<void> {
  await page.getByRole("button", { name: `${action} …` }).click();
  await fill();
  await page.getByRole("button", { name: action, exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
}
