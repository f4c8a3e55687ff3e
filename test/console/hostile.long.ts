// What clients and other operators choose is shown as text: nothing of it runs, wherever it appears. What the gateway refuses
// to keep is refused.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import * as plane from "../admin/fake-plane.ts";
import { useCleanup } from "../support/cleanup.ts";
import { exchange } from "../support/raw-client.ts";
import { noBrowser, openPage, startConsole, useBrowser, writeToken } from "./console-stage.ts";
import { hostileStrings } from "./hostile-strings.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n";
const rig = readFileSync(join(import.meta.dirname, "hostile-answers.js"), "utf8");

describe.skipIf(noBrowser)("hostile text", { timeout: 60_000 }, () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("there are more than 200 texts, and many of them run where they are taken for markup", async () => {
    expect(new Set(hostileStrings).size).toBeGreaterThan(200);
    const page = await (await browser()).newPage();
    cleanup(() => page.close());
    await page.route("**", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><div></div>" }));
    await page.goto("http://127.0.0.1/");
    const ran = await page.evaluate<number>(`(async () => {
      let count = 0;
      for (const text of ${JSON.stringify(hostileStrings.filter((text) => !/http-equiv|<base/.test(text)))}) {
        globalThis.ran = 0;
        const place = document.createElement("div");
        place.innerHTML = text;
        document.body.replaceChildren(place);
        await new Promise((resolve) => setTimeout(resolve, 10));
        if (globalThis.ran === 1) count += 1;
      }
      return count;
    })()`);
    // A busy browser runs fewer of them in time.
    expect(ran).toBeGreaterThan(20);
  });

  test("in paths, header values and notes that the gateway takes, it is shown and does not run; the others are refused", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway, `#token=${writeToken}`, rig);
    await page.getByText("live", { exact: true }).waitFor();
    const kept: string[] = [];
    for (const [i, text] of hostileStrings.entries()) {
      const body = { subject: text, action: "block", for: "1h", note: text };
      const { status } = await call(gateway.admin.port, "PUT", `/api/rules/r${i}`, { body });
      const isTaken = text.length <= 500 && !/\p{Cc}/u.test(text) && text.isWellFormed();
      expect([text, status]).toEqual([text, isTaken ? 201 : 400]);
      if (isTaken) kept.push(text);
      const id = await call(gateway.admin.port, "PUT", `/api/rules/${encodeURIComponent(text.toWellFormed())}`, {
        body,
      });
      const isId = /^[A-Za-z0-9._-]{1,64}$/.test(text);
      expect([text, id.status < 300]).toEqual([text, isId && isTaken]);
    }
    await page.evaluate('location.hash = "#/rules"');
    const missing = `${JSON.stringify(kept)}.filter((text) => {
      return ![...document.querySelectorAll(".note")].some((note) => note.textContent.startsWith(text));
    })`;
    await expect.poll(() => page.evaluate(missing)).toEqual([]);
    expect(await page.evaluate("whatIsWrong()")).toEqual([]);
    // As bytes, which a client of ours would not send.
    await page.evaluate('location.hash = "#/requests"');
    const requests = hostileStrings.filter((text) => text.length < 500 && !/[\r\n]/.test(text));
    await send(Number(new URL(gateway.url).port), requests);
    await page.getByRole("row", { name: /404/ }).first().waitFor();
    await page.getByRole("row", { name: /400/ }).first().waitFor();
    expect(await page.evaluate("whatIsWrong()")).toEqual([]);
  });

  test("in the address of the page, it is shown and does not run", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openReplaced(gateway);
    for (const view of ["clients", "requests", "runbook"]) {
      const result = await page.evaluate(`(async () => {
        const wrong = new Set();
        const missing = [];
        for (const text of texts) {
          location.hash = ${JSON.stringify(`#/${view}/`)} + encodeURIComponent(text.toWellFormed());
          await until(() => document.querySelector("title").textContent.includes(text.toWellFormed()));
          for (const each of whatIsWrong()) wrong.add(each);
          if (!document.querySelector("title").textContent.includes(text.toWellFormed())) missing.push(text);
          location.hash = "#/" + text;
        }
        return { wrong: [...wrong], missing };
      })()`);
      expect([view, result]).toEqual([view, nothing]);
    }
  });

  test("in every text that the API could answer, it is shown and does not run", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openReplaced(gateway);
    for (const view of views) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      // Then the page asks for everything anew.
      const act = '() => document.dispatchEvent(new Event("visibilitychange"))';
      expect([view, await page.evaluate(`replaced.everyText(${act})`)]).toEqual([view, nothing]);
    }
  });

  test("in what is tried, and in what the status line says, it is shown and does not run", async () => {
    const page = await openReplaced(await startConsole(cleanup, policies));
    await page.evaluate('location.hash = "#/try"');
    await page.getByLabel("Client").fill("203.0.113.7");
    const submit = '() => document.querySelector("#main form").requestSubmit()';
    expect(await page.evaluate(`replaced.everyText(${submit})`)).toEqual(nothing);
    await page.evaluate('location.hash = "#/clients/client%3A203.0.113.7"');
    await page.getByRole("button", { name: "Forgive …" }).waitFor();
    const forgive = `async () => {
      [...document.querySelectorAll("button")].find((each) => each.textContent === "Forgive …").click();
      await until(() => document.querySelector("dialog[open] form") !== null);
      document.querySelector("dialog form").requestSubmit();
      await until(() => document.querySelector("dialog") === null);
    }`;
    expect(await page.evaluate(`replaced.everyText(${forgive})`)).toEqual(nothing);
  });

  async function openReplaced(gateway: { readonly adminUrl: string }): Promise<Page> {
    const page = await openPage(
      cleanup,
      await browser(),
      gateway,
      "",
      `${rig}
      globalThis.texts = ${JSON.stringify(hostileStrings)};
      globalThis.replaced = replaceAnswers(${JSON.stringify(answers)}, texts);`,
    );
    await page.locator("#main").waitFor();
    return page;
  }
});

const nothing = { missing: [], wrong: [] };

const views = [
  "#/now",
  "#/clients",
  "#/clients/client%3A203.0.113.7",
  "#/rules",
  "#/requests/abc",
  "#/policies",
  "#/configuration",
  "#/gateways",
];

const reload = { at: new Date().toISOString(), by: "file", outcome: "failed", errors: ["a"], refused: ["b"] };
const status = {
  ...plane.status,
  config: { ...plane.status.config, isCurrent: false, restart: ["c"], lastReload: reload },
  upstream: { state: "down", reason: "d", addresses: [{ address: "e", state: "ejected", active: 1 }] },
  caller: { name: "f", role: "write" },
};
const client = await plane.clients.find("client:203.0.113.7");
const list = await plane.clients.list({ policy: null, sort: "used", search: null, limit: 50 });
const check = await plane.clients.check({ method: "GET", target: "/", client: "203.0.113.7", headers: {} });
const forgiven = await plane.clients.forgive("client:203.0.113.7");

/** By the beginning of the path, the longest first. */
const answers = {
  "/api/status": status,
  "/api/history": await plane.recent.history(null),
  "/api/policies/history": await plane.recent.policyHistory(),
  "/api/policies": plane.policies,
  "/api/clients?": list.ok ? list.value : null,
  "/api/clients/":
    client.ok && forgiven.ok
      ? {
          ...client.value,
          ...forgiven.value,
          policies: client.value.policies.map((each) => ({
            ...each,
            ...forgiven.value.policies[0],
            gap: "g",
            method: "h",
            route: "i",
            exemptBy: "j",
          })),
        }
      : null,
  "/api/rules": {
    ...plane.shownRule,
    rules: [{ ...plane.shownRule, note: "k", policy: "l", warnings: ["m"], untouchedPolicies: ["n"] }],
    warnings: ["o"],
  },
  "/api/requests/": { ...plane.requestAnswer, subject: "p", rule: "q" },
  "/api/refusals": { refusals: [plane.requestAnswer], isComplete: true },
  "/api/config": {
    ...plane.config,
    lastReload: {
      at: reload.at,
      by: "call",
      changed: ["r"],
      changes: [{ key: "s", from: "t", to: "u" }],
      reset: ["v"],
      loosened: ["w"],
      restart: [{ key: "x", inForce: "y", wanted: "z" }],
    },
  },
  "/api/check": check.ok ? check.value : null,
};

/** Requests with the text in their path, id and fields. As bytes, since the clients of others write what they like. */
async function send(port: number, texts: readonly string[]): Promise<void> {
  const heads = texts.map((text, i) => {
    const bytes = Buffer.from(text)
      .toString("latin1")
      .replaceAll(/[\0\t ]/g, "_");
    return `GET /nowhere/${bytes} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.${i % 256}\r\nUser-Agent: ${bytes}\r\nX-Request-Id: ${bytes}\r\nConnection: close\r\n\r\n`;
  });
  for (let at = 0; at < heads.length; at += 20) {
    const answers = await Promise.all(heads.slice(at, at + 20).map((head) => exchange(port, head)));
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
  }
}
