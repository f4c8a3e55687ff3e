// The other views of the console: the configuration and its reload, a request that is tried, what is wrong with its runbook, and
// a gateway that goes away and comes back.
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser, writeToken } from "./console-stage.ts";

/** The page is hidden, and visible at once. */
const seenAgain = `for (const isHidden of [true, false]) {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}`;

const policies = "  - { name: small, limit: 3, window: 1h }\n";

describe.skipIf(noBrowser)("the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("a reload is asked for, and shows what it has changed; a wrong configuration is said, with its runbook", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.evaluate('location.hash = "#/configuration"');
    await page.getByText("- name: small limit: 3 window: 1h").waitFor();
    await gateway.ask("203.0.113.8", 2);
    await gateway.ask("203.0.113.9", 1);
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Reload …" }).click();
    await dialog.getByText("The file has the values that are in force.").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    gateway.write("  - { name: small, limit: 2, window: 1h }\n  - { name: other, limit: 9, window: 1h }\n");
    await page.getByRole("button", { name: "Reload …" }).click();
    await dialog.getByRole("row", { name: "policies.small.limit 3 2" }).waitFor();
    await dialog.getByText("Starts empty: other").waitFor();
    await dialog.getByText(/^Throttled at once, with what they have used: 203\.0\.113\.8 \(2\)\.$/).waitFor();
    await dialog.getByRole("link", { name: "203.0.113.8" }).click();
    await page.getByRole("heading", { name: "203.0.113.8" }).waitFor();
    expect(await gateway.ask("203.0.113.8", 1)).toEqual([200]);
    await page.evaluate('location.hash = "#/configuration"');
    gateway.write("  - { name: small, limit: 5, window: 1h }\n");
    const reload = async (): Promise<void> => {
      await page.getByRole("button", { name: "Reload …" }).click();
      await page.getByRole("button", { name: "Reload", exact: true }).click();
    };
    await reload();
    // Before that, the row is that of the dialog, and the file is not in force yet.
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("row", { name: /policies\.small\.limit 3 5/ }).waitFor();
    expect(await gateway.ask("203.0.113.7", 6)).toEqual([200, 200, 200, 200, 200, 429]);
    gateway.write("  - { name: small, limit: many, window: 1h }\n");
    await reload();
    await dialog
      .getByText(/limit: found/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("link", { name: "1 problem" }).click();
    await page.getByText("The configuration is wrong, and the one from before is in force").waitFor();
    await page.getByRole("link", { name: "What to do" }).click();
    await page.getByRole("heading", { name: "HeadgateReloadFailed" }).waitFor();
    await page.locator("article code").first().waitFor();
  });

  test("the view follows the address, also if it changes the moment the page is there", async () => {
    const gateway = await startConsole(cleanup, policies);
    const script = `new MutationObserver(() => {
      if (document.querySelector("nav") !== null && location.hash === "") location.hash = "#/rules";
    }).observe(document, { childList: true, subtree: true })`;
    const page = await openSignedIn(cleanup, await browser(), gateway, writeToken, script);
    await page.getByRole("heading", { name: "Rules" }).waitFor();
  });

  test("the configuration shows first what was set, with the name of its file, and the defaults when somebody asks", async () => {
    const gateway = await startConsole(cleanup, policies, "tokensFile: admin.txt", { "log.access": "false" });
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.evaluate('location.hash = "#/configuration"');
    const set = page.getByRole("region", { name: "Values that were set" });
    const yaml = parse(String(await set.textContent())) as Record<string, unknown>;
    // A reader of YAML finds what the file has, and what the command line has set.
    expect(yaml["policies"]).toEqual([{ name: "small", limit: 3, window: "1h" }]);
    expect(yaml["clientAddress"]).toEqual({ trustedProxies: ["127.0.0.1/32"] });
    expect(Object.keys(yaml).sort()).toEqual(
      ["admin", "clientAddress", "drain", "listen", "log", "policies", "reload", "upstream"].sort(),
    );
    await set.getByText("access: false  # command line: --set log.access").waitFor();
    await page.getByLabel("Filter").fill("small.limit");
    const origin = page
      .getByRole("row", { name: /^policies\.small\.limit / })
      .getByRole("cell")
      .last();
    expect(await origin.textContent()).toMatch(/^file: headgate\.yaml:5/);
    expect(await origin.getAttribute("title")).toMatch(new RegExp(`^${gateway.folder}/headgate\\.yaml:5`));
    expect(await page.getByRole("row").count()).toBe(2);
    await page.getByLabel("Filter").fill("");
    const standard = page.getByRole("row", { name: "listen.maxConnections 10000 default" });
    expect(await standard.isVisible()).toBe(false);
    await page.getByText(/^\d+ defaults$/).click();
    await standard.waitFor();
    await page.getByText(/^\d+ defaults$/).click();
    // Who looks for one finds it without opening them.
    await page.getByLabel("Filter").fill("listen.maxConnections");
    await standard.waitFor();
  });

  test("refusals of a client for one reason are one row with their count, which opens, and who is throttled most is named; an id is short, and whole when copied or opened", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    await gateway.ask("203.0.113.7", 8);
    await gateway.ask("203.0.113.8", 5, { path: "/v2/y" });
    const table = page.getByRole("region", { name: "Recent refusals" });
    const row = table.getByRole("row", { name: /5 429 throttled 203\.0\.113\.7 GET \/v2\/x/ });
    await row.waitFor();
    await table.getByRole("row", { name: /2 429 throttled 203\.0\.113\.8/ }).waitFor();
    expect(await table.getByRole("row").count()).toBe(3);
    const button = row.getByRole("button", { name: "5" });
    await button.click();
    expect([await button.getAttribute("aria-expanded"), await table.getByRole("row").count()]).toEqual(["true", 7]);
    await button.click();
    expect(await table.getByRole("row").count()).toBe(3);
    const link = row.getByRole("link").last();
    const id = String(await link.textContent());
    expect([id.length, await link.getAttribute("title")]).toEqual([36, id]);
    expect((await link.boundingBox())?.width).toBeLessThan(100);
    await link.click();
    await page.getByRole("heading", { name: id }).waitFor();
    await page.evaluate('location.hash = "#/now"');
    const warning = page.getByRole("listitem").filter({ hasText: "requests in the last minute," });
    // A step of the history has to be over.
    await warning.getByText("Most of them, as far as this page has heard: 203.0.113.7 by policy small.").waitFor();
    await warning.getByRole("link", { name: "203.0.113.7" }).click();
    await page.getByRole("heading", { name: "203.0.113.7" }).waitFor();
  });

  test("a refusal by a rule leads to the rules, and shows no time of a policy that did not refuse it", async () => {
    const gateway = await startConsole(cleanup, policies);
    const body = { client: "203.0.113.7", action: "block", for: "1h" };
    expect((await call(gateway.admin.port, "PUT", "/api/rules/it", { body })).status).toBe(201);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    expect(await gateway.ask("203.0.113.7")).toEqual([403]);
    await page.locator("a.id").click();
    await page.getByText("To let it in: remove the rule.").waitFor();
    expect(await page.getByText("Free again").count()).toBe(0);
    await page.getByRole("link", { name: "remove the rule" }).click();
    await page.getByRole("button", { name: "Remove the rule it" }).waitFor();
  });

  test("a response that broke off is among the refusals, with what failed", async () => {
    const { url } = await startLoopbackServer(cleanup, (socket) => {
      socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"));
    });
    const gateway = await startConsole(cleanup, policies, undefined, { "upstream.url": url });
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    await expect(gateway.ask("203.0.113.7")).rejects.toThrow();
    await page.getByRole("row", { name: /200 broken off 203\.0\.113\.7 GET \/v2\/x/ }).waitFor();
    await page.locator("a.id").click();
    await page.getByText("200 · broken off").waitFor();
    await page.getByText(/^The failure was closed_early at /).waitFor();
  });

  test("a request that is tried is explained and not charged; a wrong one is said where it was wrong", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask("203.0.113.7", 3);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.getByRole("link", { name: "Try a request" }).click();
    await page.getByLabel("Path and query").fill("/v2/x");
    await page.getByLabel("Client").fill("203.0.113.9");
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByText("It had no bearer token, and the path asks for one.").waitFor();
    await page.getByLabel("Client").fill("203.0.113.7");
    await page.getByLabel("Headers").fill("Authorization: Bearer x");
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByRole("heading", { name: "Policy small refuses it: 429." }).waitFor();
    await page.getByText(/^\d\d:\d\d:\d\d$/).waitFor();
    await page.getByRole("row", { name: /small throttled 3 3/ }).waitFor();
    await page.getByLabel("Client").fill("203.0.113.8");
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByRole("heading", { name: "It would be forwarded" }).waitFor();
    expect(await page.getByText("It would be forwarded").count()).toBe(1);
    await page.getByText("present, not verified").waitFor();
    expect(await gateway.ask("203.0.113.8", 3)).toEqual([200, 200, 200]);
    await page.getByLabel("Client").fill("nobody");
    await page.getByRole("button", { name: "Try" }).click();
    await page
      .getByRole("alert")
      .getByText(/client/)
      .waitFor();
    await page.getByLabel("Headers").fill("no colon");
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByRole("alert").getByText("expected lines such as").waitFor();
  });

  test("a gateway that does not answer is said, and the page goes on when it answers again", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    // As a proxy in front would.
    const json = { message: "Bad Gateway", errors: [{ errMsg: "No gateway." }] };
    await page.route("**/api/**", (route) => route.fulfill({ status: 502, json }));
    const link = page.getByRole("link", { name: "1 problem" });
    // The page asks at once when it is visible again.
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByText("No gateway.").waitFor();
    await link.waitFor();
    await page.unroute("**/api/**");
    await page.getByRole("link", { name: "Healthy" }).waitFor();
  });

  test("a gateway that ends is said to be away; when it is there again, the page goes on with what is new", async () => {
    const set = { "admin.port": `${await freePort()}` };
    const first = await startConsole(cleanup, policies, "tokensFile: admin.txt", set);
    const page = await openSignedIn(cleanup, await browser(), first);
    await page.getByText("live", { exact: true }).waitFor();
    expect(await first.ask("203.0.113.7", 4)).toEqual([200, 200, 200, 429]);
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.7/ }).waitFor();
    await first.close();
    await page.getByText("The gateway does not answer.").waitFor();
    await page.getByText("reconnecting", { exact: true }).waitFor();
    await page.getByText(/^as of [1-9]\d* s ago$/).waitFor();
    // What was known stays.
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.7/ }).waitFor();
    const second = await startConsole(cleanup, policies.replace("small", "other"), "tokensFile: admin.txt", set);
    // By itself, the page asks up to ten seconds later.
    await page.evaluate('dispatchEvent(new Event("online"))');
    await page.getByText("live", { exact: true }).waitFor();
    expect(await page.getByText(/^as of/).count()).toBe(0);
    await page.getByRole("link", { name: "Healthy" }).waitFor();
    expect(await second.ask("203.0.113.8", 4)).toEqual([200, 200, 200, 429]);
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.8/ }).waitFor();
    await page.getByRole("link", { name: "Clients" }).click();
    await page.getByRole("row", { name: /203\.0\.113\.8 other 3 of 3 0 / }).waitFor();
    expect(await page.getByText("203.0.113.7").count()).toBe(0);
    await page.getByRole("link", { name: "Policies" }).click();
    await page.getByRole("row", { name: /^other 3 in 1 h client all limited requests 3 1 / }).waitFor();
  });

  test("a stream that is away is asked for after a second at first, then every ten at most, and at once when the network is back or the page is seen", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    const [live, waiting] = ["live", "reconnecting"].map((text) => page.getByText(text, { exact: true }));
    await live?.waitFor();
    let failed = 0;
    await page.route("**/api/events", (route) => route.fulfill({ status: 502, json: {} }));
    page.on("requestfinished", (request) => {
      if (request.url().endsWith("/api/events")) failed += 1;
    });
    // No timer fires by itself from here on.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    await page.evaluate('dispatchEvent(new Event("online"))');
    for (const [i, waitMs] of [1_000, 10_000, 10_000, 10_000, 10_000, 10_000].entries()) {
      await eventually("it has failed", () => failed > i);
      // An answer that comes later: the page has seen the failure.
      await page.evaluate('fetch("icon.svg").then((response) => response.text())');
      await page.clock.runFor(waitMs);
    }
    await eventually("it has failed again", () => failed > 6);
    await waiting?.waitFor();
    await page.unroute("**/api/events");
    const begun = page.waitForResponse((response) => response.url().endsWith("/api/events") && response.ok());
    await page.evaluate('dispatchEvent(new Event("online"))');
    await begun;
    // The one that was read ends, and another one begins.
    for (const event of ['dispatchEvent(new Event("online"))', seenAgain]) {
      const next = page.waitForResponse((response) => response.url().endsWith("/api/events") && response.ok());
      await page.evaluate(event);
      await next;
    }
    await page.clock.runFor(250);
    await live?.waitFor();
  });

  test("while the page is hidden it asks nothing and holds no stream; then it goes on", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("live", { exact: true }).waitFor();
    const hide = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, "hidden", { configurable: true, get: () => ${isHidden} });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await hide(true);
    await page.getByText("paused", { exact: true }).waitFor();
    expect(await gateway.ask("203.0.113.7", 4)).toEqual([200, 200, 200, 429]);
    await page.getByText("No refusals.").waitFor();
    expect(await page.getByRole("row", { name: /429 throttled/ }).count()).toBe(0);
    await hide(false);
    await page.getByText("live", { exact: true }).waitFor();
    // The one from the pause is asked for, the next comes with the stream.
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.7/ }).waitFor();
    await gateway.ask("203.0.113.8", 4);
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.8/ }).waitFor();
  });
});
