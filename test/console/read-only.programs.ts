// A person who may read sees everything and no button that changes anything, and the page asks for nothing that is refused: with
// a token that may read, and by `headgate console --read`, whose own right is to write.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { run } from "../../src/commands/admin/run.ts";
import { parseArguments } from "../../src/commands/arguments.ts";
import { testIo } from "../commands/test-io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import {
  type ConsoleGateway,
  noBrowser,
  openSignedIn,
  readToken,
  startConsole,
  useBrowser,
  writeToken,
} from "./console-stage.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n";
const client = "203.0.113.7";

/** Of which none changes anything. */
const buttons = ["Sign out", "Explain", "Try"];

const views = [
  "now",
  "clients",
  `clients/client%3A${client}`,
  "rules",
  "requests",
  "policies",
  "configuration",
  "gateways",
];

describe.skipIf(noBrowser)("who may read", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  /** With a client that is limited, a rule about it, and a reload on trial. */
  async function stage(): Promise<ConsoleGateway> {
    const gateway = await startConsole(cleanup, policies, "tokensFile: admin.txt, socket: FOLDER/admin.sock");
    await gateway.ask(client, 4);
    const { status } = await fetch(`${gateway.adminUrl}/api/rules/a`, {
      method: "PUT",
      headers: { authorization: `Bearer ${writeToken}`, "content-type": "application/json" },
      body: JSON.stringify({ client, action: "exempt", for: "1h" }),
    });
    expect(status).toBe(201);
    gateway.write(policies.replace("limit: 3", "limit: 4"));
    expect(await gateway.reloadOnTrial({ confirmWithin: "1h" })).toBe(200);
    return gateway;
  }

  async function expectNothingToChange(page: Page): Promise<void> {
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 403) refused.push(response.url());
    });
    const said = page.getByText("You may read and change nothing");
    await said.waitFor();
    for (const view of views) {
      await page.evaluate(`location.hash = "#/${view}"`);
      await page.locator(`nav a[aria-current][href="#/${view.split("/")[0]}"]`).waitFor();
      await page.getByRole("region", { name: "Reload on trial" }).waitFor();
      if (view.startsWith("clients/") || view === "rules") await page.getByRole("cell", { name: "exempt" }).waitFor();
      await said.waitFor();
      expect((await page.getByRole("button").allTextContents()).filter((text) => !buttons.includes(text))).toEqual([]);
    }
    // What a request would get is asked by POST.
    await page.getByRole("link", { name: "Try a request" }).click();
    await page.getByLabel("Client").fill(client);
    await page.getByRole("button", { name: "Try" }).click();
    await page.getByRole("heading", { name: "The gateway answers 401 (no_token)." }).waitFor();
    expect(refused).toEqual([]);
  }

  test("with a token that may read", async () => {
    const gateway = await stage();
    const page = await openSignedIn(cleanup, await browser(), gateway, readToken);
    await page.getByText("dashboard (may read)").waitFor();
    await expectNothingToChange(page);
  });

  test("by headgate console --read", async () => {
    const gateway = await stage();
    const io = testIo();
    const parsed = parseArguments(["console", "--json", "--read", "--socket", `${gateway.folder}/admin.sock`]);
    if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("no invocation");
    const ended = run(parsed.invocation.args, io, "0.0.0-test");
    cleanup(async () => {
      io.signal("SIGTERM");
      await ended;
    });
    await eventually("it is open", () => io.outText() !== "");
    const { url, token } = JSON.parse(io.outText()) as { url: string; token: string };
    const page = await openSignedIn(cleanup, await browser(), { adminUrl: url.replace(/\/$/, "") }, token);
    await page.getByText("socket (may read)").waitFor();
    await expectNothingToChange(page);
  });
});
