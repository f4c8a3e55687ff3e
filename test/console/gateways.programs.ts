// What the console shows of the gateways that share a store, and what its dialogs say about where a change holds.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { expectAccessible } from "./axe.ts";
import { noBrowser, openSignedIn, startConsole, useBrowser } from "./console-stage.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n";

describe.skipIf(noBrowser)("the view of the gateways", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("says without a store that there is none, and what one is for", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway);
    await page.getByRole("link", { name: "Gateways" }).click();
    await page.getByText("This gateway counts for itself").waitFor();
    expect(await page.getByRole("table").count()).toBe(0);
  });

  test.skipIf(skipRedis)(
    `lists those of the store, and dialogs say at which a change holds${redisNeeded}`,
    async () => {
      const redis = await startRedis();
      cleanup(() => redis.stop());
      const set = { "counters.store": "redis", "counters.redis.url": `redis://127.0.0.1:${redis.port}` };
      const own = await startConsole(cleanup, policies, "tokensFile: admin.txt", set);
      const other = await startConsole(cleanup, policies, "tokensFile: admin.txt", set);
      const page = await openSignedIn(cleanup, await browser(), own);
      await page.getByRole("link", { name: "Gateways" }).click();
      await page
        .getByText(/^The store is up \(1 up\) since \d.* ago\)\. It has heard of these gateways within the last 10 s:$/)
        .waitFor();
      const [ownRow, otherRow] = [own, other].map(({ admin }) => {
        return page.getByRole("row", { name: new RegExp(` 127\\.0\\.0\\.1:${admin.port} 0\\.0\\.0-test `) });
      });
      await ownRow?.getByText("this one").waitFor();
      await otherRow?.waitFor();
      expect(await otherRow?.getByText("this one").count()).toBe(0);
      await expectAccessible(page);
      await page.getByRole("link", { name: "Rules" }).click();
      await page.getByRole("button", { name: "Block …" }).click();
      await page.getByText(/It holds at all 2 gateways of the store: 127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+\./).waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("link", { name: "Configuration" }).click();
      await page.getByRole("button", { name: "Reload …" }).click();
      await page.getByText("It is about this gateway alone, and not about the others of the store (1).").waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await redis.kill();
      await page.getByRole("link", { name: "Gateways" }).click();
      await page.getByText("These gateways were there when it was reached last:").waitFor();
      await otherRow?.waitFor();
      await page.getByRole("link", { name: "Rules" }).click();
      await page.getByRole("button", { name: "Block …" }).click();
      await page.getByText("The store is away: it holds at this gateway alone for now").waitFor();
    },
  );
});
