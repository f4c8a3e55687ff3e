// What the console draws of the last minutes, from what the real gateway has counted.
import type { Locator, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { noBrowser, openPage, openSignedIn, readToken, startConsole, useBrowser } from "./console-stage.ts";

/** What a legend says, by name. */
async function legendOf(page: Page, title: string): Promise<Map<string, string>> {
  const items = await page.getByRole("figure", { name: title }).locator(".legend li").allTextContents();
  return new Map(items.map((text) => /^(.+?) ([\d–].*)$/.exec(text.trim())?.slice(1) as [string, string]));
}

interface Box {
  readonly top: number;
  readonly bottom: number;
  readonly width: number;
  readonly height: number;
}

/** So many steps of 5 s, each the same: 25 requests a second, and a slow response. */
function historyOf(count: number): object {
  return { stepSeconds: 5, end: "2026-11-28T12:00:00.000Z", steps: new Array(count).fill(stepOf(100)) };
}

function stepOf(admitted: number): object {
  return {
    ...{ seconds: 5, admitted, refused: { throttled: 25 }, store: null },
    latencySeconds: { p50: 0.001, p90: 0.002, p99: 0.068 },
    upstream: {
      answered: 100,
      meanSeconds: 0.0015,
      latencySeconds: { p50: 0.0008, p90: 0.001, p99: 0.06 },
      failedByReason: {},
    },
    memory: { residentBytes: 190 * 2 ** 20, heapBytes: 44 * 2 ** 20, externalBytes: 22 * 2 ** 20 },
  };
}

describe.skipIf(noBrowser)("the charts of the console", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  async function openWith(known: number): Promise<Page> {
    const gateway = await startConsole(cleanup, "  - { name: small, limit: 3, window: 1h }\n");
    const page = await openPage(cleanup, await browser(), gateway);
    await page.route("**/api/history*", (route) => route.fulfill({ json: historyOf(known) }));
    await page.getByLabel("Token of the admin API").fill(readToken);
    await page.keyboard.press("Enter");
    await page.getByRole("figure", { name: "Requests" }).waitFor();
    return page;
  }

  test("the first view draws the memory of the process and of its heaps", async () => {
    const gateway = await startConsole(cleanup, "  - { name: small, limit: 3, window: 1h }\n");
    const page = await openSignedIn(cleanup, await browser(), gateway);
    const chart = page.getByRole("img", {
      name: /^Memory over the last minute; now: resident [1-9]\d* MiB, in heaps/,
    });
    await chart.waitFor();
    const legend = await legendOf(page, "Memory");
    const [resident = 0, heaps = 0] = ["resident", "in heaps"].map((name) => Number.parseFloat(legend.get(name) ?? ""));
    expect(resident).toBeGreaterThan(heaps);
    expect(heaps).toBeGreaterThan(5);
  });

  test("a shadow is drawn beside what is enforced, with one scale, and says what it would refuse", async () => {
    const gateway = await startConsole(
      cleanup,
      "  - { name: small, limit: 3, window: 1h }\n  - { name: watched, limit: 1, window: 1h, mode: shadow }\n",
    );
    await gateway.ask("203.0.113.7", 5);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByText("ops (may write)").waitFor();
    await page.getByRole("link", { name: "Policies" }).click();
    const [enforced, shadows] = ["Enforced", "Shadows"].map((kind) => {
      return page.getByRole("region", { name: `${kind}, in the last minute` });
    }) as [Locator, Locator];
    await enforced.getByText("40 % throttled in the last minute").waitFor();
    await shadows.getByText("80 % would be throttled in the last minute").waitFor();
    await page.getByRole("row", { name: /^small 3 in 1 h client all limited requests 3 2 \(40 %\) 0$/ }).waitFor();
    await page.getByRole("row", { name: /^watched shadow 1 in 1 h .* 1 would: 4 \(80 %\) 0$/ }).waitFor();
    expect(await enforced.getByRole("heading").allTextContents()).toEqual(["small "]);
    expect(await shadows.getByRole("heading").allTextContents()).toEqual(["watched shadow"]);
    expect([...(await legendOf(page, "small")).keys()]).toEqual(["admitted", "throttled"]);
    expect([...(await legendOf(page, "watched")).keys()]).toEqual(["admitted", "would throttle"]);
    const scales = await page.locator(".plot .y :last-child").allTextContents();
    expect([scales.length, new Set(scales).size]).toEqual([2, 1]);
    expect(scales[0]).toMatch(/^[\d.]+\/s$/);
    // Its past is still there when a reload has changed the policies.
    gateway.write("  - { name: small, limit: 9, window: 1h }\n  - { name: other, limit: 1, window: 1h }\n");
    expect((await call(gateway.admin.port, "POST", "/api/reload", { body: {} })).status).toBe(200);
    const chart = page.getByRole("region", { name: "The last minute" });
    await chart.getByText("40 % throttled in the last minute").waitFor();
    await chart.getByText("not asked in the last minute").waitFor();
  });

  test.each([
    [1, "minute", ["1 min ago", "40 s", "20 s", "now"]],
    [29, "minute", ["1 min ago", "40 s", "20 s", "now"]],
    [30, "5 minutes", ["5 min ago", "", "3", "2", "1", "now"]],
    [90, "15 minutes", ["15 min ago", "10", "5", "now"]],
    [180, "15 minutes", ["15 min ago", "10", "5", "now"]],
  ])("of %i known steps of 5 s, the charts show the last %s, of which at least half is known", async (...row) => {
    const [known, range, parts] = row;
    const page = await openWith(known);
    const charts = page.locator(".now.charts");
    expect(await charts.locator(".x").first().locator("span").allTextContents()).toEqual(parts);
    await charts.getByRole("img", { name: `Memory over the last ${range};` }).waitFor();
    const counted = Math.min(known, { minute: 12, "5 minutes": 60, "15 minutes": 180 }[range] ?? 0) * 100;
    await charts.getByText(`admitted 20 ${counted.toLocaleString("en")} · 80 %`).waitFor();
  });

  test("only new steps are asked for, unless they do not follow those that are known", async () => {
    const page = await openWith(10);
    const asked: string[] = [];
    const [followed, other] = [stepOf(100), stepOf(7)];
    let isSame = true;
    await page.route("**/api/history*", (route) => {
      const [, query = ""] = route.request().url().split("?");
      asked.push(query);
      const newest = isSame ? [followed, followed, other] : [other, other];
      return route.fulfill({ json: { stepSeconds: 5, end: "2026-11-28T12:00:05.000Z", steps: newest } });
    });
    // The page asks at once when it is visible again.
    const ask = () => page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await ask();
    await page
      .getByRole("listitem")
      .filter({ hasText: /^admitted .* 1,007 · / })
      .waitFor();
    const newSteps = [...asked];
    isSame = false;
    await ask();
    await page
      .getByRole("listitem")
      .filter({ hasText: /^admitted .* 14 · / })
      .waitFor();
    // The page also asks by itself, before that and after it.
    expect(new Set(asked)).toEqual(new Set(["steps=3", ""]));
    expect(new Set(newSteps)).toEqual(new Set(["steps=3"]));
  });

  test("scales have round steps from zero, that of times is logarithmic, and the upstream's time stands beside the whole", async () => {
    const page = await openWith(180);
    const scaleOf = (title: string) => page.getByRole("figure", { name: title }).locator(".y span").allTextContents();
    await page.getByRole("figure", { name: "Requests" }).waitFor();
    expect(await scaleOf("Requests")).toEqual(["0", "10", "20", "30"]);
    // That of times is logarithmic, so that one slow response does not press the others to the floor.
    expect(await scaleOf("Latency")).toEqual(["100 µs", "1 ms", "10 ms", "100 ms"]);
    expect([...(await legendOf(page, "Latency"))]).toEqual([
      ["p50", "1 ms"],
      ["upstream p50", "800 µs"],
      ["p99", "68 ms"],
      ["upstream p99", "60 ms"],
    ]);
    expect(await scaleOf("Memory")).toEqual(["0", "50 MiB", "100 MiB", "150 MiB", "200 MiB"]);
  });

  test("one step with very many requests does not own the axis: it is cut, with a mark and its number", async () => {
    const page = await openWith(11);
    const steps = [...new Array(9).fill(stepOf(100)), stepOf(50_000), stepOf(100)];
    await page.route("**/api/history*", (route) => route.fulfill({ json: { ...historyOf(11), steps } }));
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByText("▲ 10,005").waitFor();
    const chart = page.getByRole("figure", { name: "Requests" });
    expect(await chart.locator(".y span").last().textContent()).toBe("60");
  });

  test("how long each route takes stands beside the charts", async () => {
    const gateway = await startConsole(cleanup, "  - { name: small, limit: 3, window: 1h }\n");
    await gateway.ask("203.0.113.7", 4);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    const table = page.getByRole("region", { name: "Latency by route" });
    await table.getByRole("row", { name: /^\/v2\/ 3 .*m?s .*m?s/ }).waitFor();
  });

  test("steps in which the upstream failed have a band, and the reasons are those of the upstream", async () => {
    const page = await openWith(11);
    const failing = {
      ...stepOf(0),
      upstream: { answered: 0, meanSeconds: null, latencySeconds: null, failedByReason: { refused: 74 } },
    };
    const json = { ...historyOf(12), steps: [...new Array(10).fill(stepOf(100)), failing, stepOf(100)] };
    await page.route("**/api/history*", (route) => route.fulfill({ json }));
    await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
    await page.getByRole("listitem").filter({ hasText: "failed at the upstream 0 connection refused 74" }).waitFor();
    const bands = page.locator(".chart path.failed");
    expect([await bands.count(), await bands.getAttribute("d")]).toEqual([1, "M10 0h1V100h-1z"]);
    await page
      .getByText(
        /^critical The upstream has failed .* of requests since (?:\d+ \w+, )?\d+:\d+:\d+: connection refused\.$/,
      )
      .waitFor();
  });

  test("wide or narrow, the panels of the first view leave no hole", async () => {
    const page = await openWith(180);
    for (const width of [360, 1000, 1280, 1440, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      const [whole, ...panels] = (await page.evaluate(`(() => {
        const grid = document.querySelector(".now.charts");
        return [grid, ...grid.children].map((one) => one.getBoundingClientRect().toJSON());
      })()`)) as [Box, ...Box[]];
      const bottom = panels[0]?.bottom ?? 0;
      const gap = Math.min(...panels.map(({ top }) => top - bottom).filter((each) => each > 0));
      const area = panels.reduce((sum, { width: w, height }) => sum + (w + gap) * (height + gap), 0);
      expect([width, panels.length, (area / ((whole.width + gap) * (whole.height + gap))).toFixed(2)]).toEqual([
        ...[width, 5],
        "1.00",
      ]);
    }
  });
});
