// The console where things are slow, cut off, without a mouse, or end by themselves.
import { connect } from "node:net";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { call } from "../admin/api-stage.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import { noBrowser, openPage, openSignedIn, startConsole, useBrowser, writeToken } from "./console-stage.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n";
const client = "203.0.113.7";
const slowMs = 5_000;
/** The calls of one view and of the frame, each once. */
const mostCallsAtOnce = 8;
/** Long enough to see it on a busy machine. */
const blockedSeconds = 10;

describe.skipIf(noBrowser)("the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("answers that take 5 s do not pile up, and an action says that it is under way", async () => {
    const gateway = await startConsole(cleanup, policies);
    expect(await gateway.ask(client, 4)).toEqual([200, 200, 200, 429]);
    const page = await openPage(cleanup, await browser(), gateway, "");
    let [open, most] = [0, 0];
    // The stream has its own place.
    await page.route(/\/api\/(?!events)/, async (route) => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setTimeout(resolve, slowMs));
      open -= 1;
      // The page may have been closed meanwhile.
      await route.continue().catch(() => {});
    });
    await page.getByLabel("Token of the admin API").fill(writeToken);
    await page.keyboard.press("Enter");
    await page.getByText("live", { exact: true }).waitFor();
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    await page.getByText("3 of 3 used, 0 left").waitFor();
    await page.getByRole("button", { name: "Forgive …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Forgive" }).click();
    await dialog.getByText("The gateway is being asked …").waitFor();
    await page.getByText("3 of 3 used, 0 left").waitFor();
    await page.getByText("0 of 3 used, 3 left").waitFor();
    expect(await gateway.ask(client)).toEqual([200]);
    expect(most).toBeLessThanOrEqual(mostCallsAtOnce);
  });

  test("a connection that is cut again and again is opened again, and the page goes on", async () => {
    const gateway = await startConsole(cleanup, policies);
    const cut = await startCutter(cleanup, gateway.admin.port);
    const page = await openSignedIn(cleanup, await browser(), { adminUrl: cut.url });
    const live = page.getByText("live", { exact: true });
    for (let round = 0; round < 3; round += 1) {
      await live.waitFor();
      const before = cut.opened();
      cut.all();
      await eventually("the page connects again", () => cut.opened() > before, 10_000);
      await live.waitFor();
      const next = `198.51.100.${round}`;
      await gateway.ask(next, 4);
      await page.getByRole("row", { name: new RegExp(`429 throttled ${next.replaceAll(".", "\\.")}`) }).waitFor();
    }
  });

  test("by keyboard alone, one signs in, finds a client, forgives and blocks it, and ends the block", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("198.51.100.1");
    expect(await gateway.ask(client, 4)).toEqual([200, 200, 200, 429]);
    const page = await openPage(cleanup, await browser(), gateway);
    await page.getByLabel("Token of the admin API").waitFor();
    await reach(page, "Token of the admin API");
    await page.keyboard.type(writeToken);
    await page.keyboard.press("Enter");
    await page.getByText("ops (may write)").waitFor();
    await reach(page, "Clients");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Clients" }).waitFor();
    await reach(page, "Filter");
    await page.keyboard.type("203.0.113");
    await page.getByRole("row", { name: /198\.51/ }).waitFor({ state: "detached" });
    await reach(page, client);
    await page.keyboard.press("Enter");
    await page.getByText("3 of 3 used, 0 left").waitFor();
    await reach(page, "Forgive …");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await reach(page, "Forgive");
    await page.keyboard.press("Enter");
    await page.getByText("0 of 3 used, 3 left").waitFor();
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await focused(page)).toMatchObject({ name: "Forgive …" });
    await reach(page, "Block …");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await reach(page, "Note");
    await page.keyboard.type("scrapes");
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: /^203\.0\.113\.7 block .* scrapes/ }).waitFor();
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await gateway.ask(client)).toEqual([403]);
    await reach(page, "Remove the rule");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await reach(page, "Remove");
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: /^203\.0\.113\.7 block/ }).waitFor({ state: "detached" });
    expect(await gateway.ask(client)).toEqual([200]);
  });

  test("a block ends by its own time: in the list of rules, for its client, and at the gateway", async () => {
    const gateway = await startConsole(cleanup, policies);
    const list = await openSignedIn(cleanup, await browser(), gateway);
    await list.evaluate('location.hash = "#/rules"');
    await list.getByText("No rules.").waitFor();
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    await page.getByRole("button", { name: "Block …" }).click();
    // The shortest of the dialog are 15 minutes.
    await page.evaluate(`document.querySelector("#rule-for").add(new Option("a few seconds", "${blockedSeconds}s"))`);
    await page.getByLabel("For").selectOption(`${blockedSeconds}s`);
    await page.getByRole("button", { name: "Block", exact: true }).click();
    const row = list.getByRole("row", { name: /^203\.0\.113\.7 block [\d:]+ \(in [\d.]+ s\) ops/ });
    await row.waitFor();
    expect(await gateway.ask(client)).toEqual([403]);
    const said = page.getByText(/Its requests get 403 by rule block-203\.0\.113\.7-/);
    await said.waitFor();
    const { json } = await call(gateway.admin.port, "GET", "/api/rules");
    const [{ ends }] = (json as { rules: [{ ends: string }] }).rules;
    for (const gone of [list.getByText(/^block-203/), said, page.getByText(/^block-203/)]) {
      await gone.waitFor({ state: "detached" });
    }
    expect(systemClock.wallMs()).toBeGreaterThanOrEqual(Date.parse(ends));
    expect(await gateway.ask(client)).toEqual([200]);
    await page.getByText("1 of 3 used, 2 left").waitFor();
    expect(gateway.logLines.filter(({ msg }) => msg === "rule ended")).toMatchObject([{ setBy: "ops", by: null }]);
  });
});

/** By the tabulator. What has the focus must show it. */
async function reach(page: Page, name: string): Promise<void> {
  const seen: string[] = [];
  for (let steps = 0; steps < 60; steps += 1) {
    const { name: found, isVisible } = await focused(page);
    if (found.startsWith(name)) {
      expect([found, isVisible]).toEqual([found, true]);
      return;
    }
    seen.push(found);
    await page.keyboard.press("Tab");
  }
  throw new Error(`${name} is not reached by the tabulator, but ${seen.join(" | ")}`);
}

function focused(page: Page): Promise<{ name: string; isVisible: boolean }> {
  return page.evaluate(`(() => {
    const element = document.activeElement;
    const label = element.labels?.[0]?.textContent ?? "";
    const { outlineStyle, boxShadow } = getComputedStyle(element);
    const name = element.getAttribute("aria-label") ?? (label || element.textContent);
    return { name: name.trim(), isVisible: outlineStyle !== "none" || boxShadow !== "none" };
  })()`);
}

interface Cutter {
  readonly url: string;
  readonly opened: () => number;
  /** Cuts all connections that are open. */
  readonly all: () => void;
}

/** Forwards connections to a port of this machine. */
async function startCutter(cleanup: Cleanup, port: number): Promise<Cutter> {
  let opened = 0;
  const { url, sockets } = await startLoopbackServer(cleanup, (near) => {
    opened += 1;
    const far = connect(port, "127.0.0.1");
    far.on("error", () => {});
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    near.pipe(far).pipe(near);
  });
  const all = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return { url, opened: () => opened, all };
}
