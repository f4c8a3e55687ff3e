// A calendar quota on the page of its client: the share that is used, the share of the period that has passed, and the pace. The
// browser's clock is the gateway's, which the test moves: by the Date of the answers.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

const policies = `  - { name: monthly, limit: 20, per: month, timezone: Europe/Zurich, charge: { statuses: [404] } }
  - { name: daily, limit: 9, per: day, timezone: Europe/Zurich }
`;
const client = "203.0.113.7";

/** `at`: what the browser takes for now. `used`: of the month. */
async function showAt(page: Page, at: string, used: number, period: readonly [start: string, end: string]) {
  await page.clock.setFixedTime(new Date(at));
  // The page takes the time from every answer, such as that of the status, which it asks for by itself.
  await page.route(/\/api\/(?!events)/, async (route) => {
    const response = await route.fetch();
    const json = (await response.json()) as { policies?: Record<string, unknown>[] };
    const [monthly] = route.request().url().includes("/api/clients/") ? (json.policies ?? []) : [];
    const [start, end] = period;
    if (monthly !== undefined) Object.assign(monthly, { used, remaining: 20 - used, period: { start, end } });
    await route.fulfill({ response, json, headers: { ...response.headers(), date: new Date(at).toUTCString() } });
  });
}

describe.skipIf(noBrowser)("a calendar quota", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("of a month and of a day is drawn as its period, from what the gateway has charged", async () => {
    const gateway = await startConsole(cleanup, policies);
    await gateway.ask(client, 3);
    await gateway.ask(client, 2, { path: "/nowhere" });
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    const card = (name: string) => page.locator("section.panel", { has: page.getByRole("heading", { name }) });
    const zurich = (fields: Intl.DateTimeFormatOptions) => {
      return new Intl.DateTimeFormat("en-GB", { ...fields, hourCycle: "h23", timeZone: "Europe/Zurich" }).format();
    };
    await card("daily")
      .getByText(/^33 % is used, and \S+ % of the day has passed/)
      .waitFor();
    await card("daily")
      .getByText(/^A new day begins on .*, 00:00 \(Europe\/Zurich\)\.$/)
      .waitFor();
    // The page shows a new hour or day when it asks next.
    const nowIn = (name: string) => card(name).locator(".parts .now").textContent();
    await expect
      .poll(async () => [zurich({ hour: "2-digit" }), (await nowIn("daily"))?.padStart(2, "0")])
      .toSatisfy(([hour, shown]) => hour === shown);
    await card("monthly")
      .getByText(/^0 % is used, and \S+ % of the month has passed\.$/)
      .waitFor();
    await expect
      .poll(async () => [zurich({ day: "numeric" }), await nowIn("monthly")])
      .toSatisfy(([day, shown]) => day === shown);
    const days = await card("monthly").locator(".parts li").count();
    expect([28, 29, 30, 31]).toContain(days);
  });

  // Clocks go back on 25 October.
  const october = ["2026-09-30T22:00:00.000Z", "2026-10-31T23:00:00.000Z"] as const;

  test.each<[string, number, string, string, string[]]>([
    [
      "that is used up before its end",
      ...([10, "2026-10-13T10:00:00Z"] as const),
      "50 % is used, and 40 % of the month has passed; at this pace it is used up on the 25th.",
      ["25"],
    ],
    [
      "that is used up today",
      ...([19, "2026-10-10T00:24:00Z"] as const),
      "95 % is used, and 29 % of the month has passed; at this pace it is used up today at 13:53.",
      ["10"],
    ],
    [
      "that lasts",
      ...([5, "2026-10-16T10:00:00Z"] as const),
      "25 % is used, and 50 % of the month has passed; at this pace 10 of 20 are used at its end.",
      [],
    ],
    [
      "that is used up",
      ...([20, "2026-10-16T10:00:00Z"] as const),
      "100 % is used, and 50 % of the month has passed.",
      [],
    ],
    [
      "that has just begun",
      ...([1, "2026-09-30T23:00:00Z"] as const),
      "5 % is used, and 0.13 % of the month has passed.",
      [],
    ],
  ])("%s", async (_, used, at, sentence, usedUp) => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await showAt(page, at, used, october);
    await page.evaluate(`location.hash = "#/clients/client%3A${client}"`);
    const card = page.locator("section.panel", { has: page.getByRole("heading", { name: "monthly" }) });
    await card.getByText(sentence, { exact: true }).waitFor();
    await card.getByText("A new month begins on 1 Nov, 00:00 (Europe/Zurich).").waitFor();
    expect(await card.locator(".parts .used-up").allTextContents()).toEqual(usedUp);
    expect(await card.locator(".parts li").count()).toBe(31);
  });
});
