// What clients and other operators choose is shown as text: nothing of it runs, wherever it appears. What the gateway refuses
// to keep is refused.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import * as plane from "../admin/fake-plane.ts";
import { useCleanup } from "../support/cleanup.ts";
import { exchange } from "../support/raw-client.ts";
import { fifthOf } from "../support/runs.ts";
import { noBrowser, openPage, openSignedIn, startConsole, useBrowser, writeToken } from "./console-stage.ts";
import { hostileStrings } from "./hostile-strings.ts";

const policies = "  - { name: small, limit: 3, window: 1h }\n";
const rig = readFileSync(join(import.meta.dirname, "hostile-answers.js"), "utf8");

/** Characters that a reader does not see, or that change how others are shown. A subject may have them, a note may not. */
const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;

describe.skipIf(noBrowser)("hostile text", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("there are more than 200 texts, and many of them run where they are taken for markup", async () => {
    expect(new Set(hostileStrings).size).toBeGreaterThan(200);
    const page = await (await browser()).newPage();
    cleanup(() => page.close());
    await page.route("**", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><div></div>" }));
    await page.goto("http://127.0.0.1/");
    // What a text loads fails in the browser, and does not wait for this process.
    await page.unroute("**");
    await page.context().setOffline(true);
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
    const page = await openSignedIn(cleanup, await browser(), gateway, writeToken, rig);
    await page.getByText("live", { exact: true }).waitFor();
    const kept: string[] = [];
    for (const [i, text] of hostileStrings.entries()) {
      const isTaken = text.length <= 500 && !/\p{Cc}/u.test(text) && text.isWellFormed();
      const isNote = isTaken && !hidden.test(text);
      const body = { subject: text, action: "block", for: "1h", note: isNote ? text : "a note" };
      const { status } = await call(gateway.admin.port, "PUT", `/api/rules/r${i}`, { body });
      expect([text, status]).toEqual([text, isTaken ? 201 : 400]);
      if (isNote) kept.push(text);
      const noted = await call(gateway.admin.port, "PUT", `/api/rules/r${i}`, { body: { ...body, note: text } });
      expect([text, noted.status < 300]).toEqual([text, isNote]);
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
    const port = Number(new URL(gateway.url).port);
    const [unread] = await send(port, requests);
    await page.getByRole("row", { name: /404/ }).first().waitFor();
    // Of so many in a second, the page is told of a sample.
    await expect
      .poll(
        async () => {
          await send(port, [unread as string]);
          return page.getByRole("row", { name: /400/ }).count();
        },
        { interval: 500 },
      )
      .toBeGreaterThan(0);
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

  test("in the events of the stream, it is shown and does not run", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway, "", rig);
    const asked: Route[] = [];
    await page.route("**/api/events", (route) => void asked.push(route));
    const next = async () => {
      await expect.poll(() => asked.length).toBe(1);
      return asked.pop() as Route;
    };
    await page.evaluate(`location.hash = "code=${gateway.code}"`);
    for (const [i, view] of ["#/requests", ...views].entries()) {
      // The page keeps fewer events than there are texts.
      const halves = [0, 1].map((half) => fifthOf(hostileStrings, i).filter((_, k) => k % 2 === half));
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      for (const texts of halves) {
        await (await next()).fulfill({ contentType: "text/event-stream", body: eventsOf(texts) });
        if (view === "#/requests") {
          const missing = `${JSON.stringify(texts)}.filter((text) => !document.querySelector("#main").textContent.includes(text))`;
          await expect.poll(() => page.evaluate(missing)).toEqual([]);
        }
        expect([view, await page.evaluate("whatIsWrong()")]).toEqual([view, []]);
      }
    }
    await (await next()).continue();
    await gateway.ask("203.0.113.7", 4);
    await page.evaluate('location.hash = "#/now"');
    await page.getByRole("row", { name: /429 throttled 203\.0\.113\.7/ }).waitFor();
  });

  test("in answers that are errors, it is shown and does not run, and the view comes back", async () => {
    const page = await openReplaced(await startConsole(cleanup, policies));
    for (const view of [...views, "#/runbook/HeadgateDown"]) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await expectBearsFailures(page, view, reloaded, failureKinds, !silentViews.has(view));
    }
  });

  test("in errors of what somebody does, it is shown and does not run, and then it can be done", async () => {
    const page = await openReplaced(await startConsole(cleanup, policies));
    for (const [view, action] of [
      ["#/clients/client%3A203.0.113.7", "Forgive …"],
      ["#/clients/client%3A203.0.113.7", "Block …"],
      ["#/rules", "Remove …"],
      ["#/configuration", "Reload …"],
      ["#/now", "Confirm …"],
    ] as const) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await page.getByText(action, { exact: true }).click();
      // The other kinds are read by the same code for all calls.
      const act = '() => document.querySelector("dialog form")?.requestSubmit()';
      await expectBearsFailures(page, action, act, ["errors"]);
      await page.locator("dialog").waitFor({ state: "detached" });
    }
    await page.evaluate('location.hash = "#/try"');
    await page.getByLabel("Client").fill("203.0.113.7");
    await expectBearsFailures(page, "try", '() => document.querySelector("#main form").requestSubmit()');
    // Whoever is signed out is asked for a token.
    await page.evaluate(`{ replaced.fail("errors", [401]); (${reloaded})(); }`);
    await page.getByLabel("Token of the admin API").waitFor();
    const signIn = `async () => {
      await until(() => document.querySelector("#token, #main") !== null);
      const field = document.querySelector("#token");
      if (field === null) return;
      field.value = "a";
      field.dispatchEvent(new Event("input"));
      await new Promise((resolve) => setTimeout(resolve));
      field.form.requestSubmit();
    }`;
    await expectBearsFailures(page, "sign-in", signIn);
    await page.locator("#main").waitFor();
  });

  let opened = 0;

  async function openReplaced(gateway: { readonly adminUrl: string }): Promise<Page> {
    const page = await openPage(
      cleanup,
      await browser(),
      gateway,
      "",
      `${rig}
      globalThis.texts = ${JSON.stringify(fifthOf(hostileStrings, opened++))};
      globalThis.replaced = replaceAnswers(${JSON.stringify(answers)}, texts);`,
    );
    await page.locator("#main").waitFor();
    return page;
  }
});

const reloaded = '() => document.dispatchEvent(new Event("visibilitychange"))';

/** What they show does not change, or is a part of the status. */
const silentViews = new Set(["#/requests/abc", "#/gateways", "#/runbook/HeadgateDown"]);

/** See hostile-answers.js. */
const failureKinds = ["errors", "odd", "notJson"];
const failingStatuses = [400, 403, 404, 409, 412, 429, 500, 503];

/** Each kind of failure with each text. `act`: the source of a function that makes the page call. */
async function expectBearsFailures(
  page: Page,
  where: string,
  act: string,
  kinds: readonly string[] = failureKinds,
  isShown = true,
): Promise<void> {
  for (const kind of kinds) {
    // A proxy in between may ask for a password with 200.
    const statuses = kind === "notJson" ? [200, ...failingStatuses] : failingStatuses;
    await page.evaluate(`replaced.fail("${kind}", ${JSON.stringify(statuses)})`);
    const result = await page.evaluate(`replaced.everyText(${act}, ${isShown && kind === "errors"})`);
    expect([where, kind, result]).toEqual([where, kind, nothing]);
  }
  await page.evaluate("replaced.fail(null)");
  // What the view asked meanwhile has failed too.
  await page.evaluate(`(${reloaded})(), (${act})()`);
  const alerts = `[...document.querySelectorAll("[role=alert]")].map((each) => each.textContent).filter((text) => text !== "")`;
  await expect.poll(() => page.evaluate(alerts)).toEqual([]);
}

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
const lastMinutes = { ...plane.status.upstream.lastMinutes, failures: [{ reason: "reset", address: "e2", count: 9 }] };
const status = {
  ...plane.status,
  config: { ...plane.status.config, isCurrent: false, restart: ["c"], lastReload: reload },
  upstream: {
    state: "down",
    reason: "d",
    addresses: [{ address: "e", state: "ejected", reason: "f", active: 1 }],
    lastMinutes,
  },
  caller: { name: "f", role: "write" },
};
const client = await plane.clients.find("client:203.0.113.7");
const list = await plane.clients.list({ policy: null, sort: "used", search: null, limit: 50 });
const check = await plane.clients.check({ method: "GET", target: "/", client: "203.0.113.7", headers: {} });
const unchanged = await plane.fakePlane().reload({}, "ops");
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
  "/api/reload": unchanged.ok ? unchanged.value : null,
  "/api/check": check.ok ? check.value : null,
};

/**
 * A stream with an event of each type for each text, each of whose texts is another one: after all of them, each text of an event
 * was each of `texts`.
 */
function eventsOf(texts: readonly string[]): string {
  const at = reload.at;
  const { request, trial } = { request: { ...plane.requestAnswer, subject: "a", rule: "b" }, trial: status.trial };
  const events = [
    { type: "reload", ...reload, changed: ["c"] },
    { type: "trial", at, outcome: "taken_back", reason: "time", by: "d", trial: { ...trial, changed: ["e"] } },
    { type: "upstream", at, upstream: status.upstream },
    { type: "store", at, store: status.store },
    { type: "rule", at, set: [{ ...plane.shownRule, note: "f" }], removed: ["g"] },
    { type: "refusal", at, request, leftOut: 1 },
    // Of a later version.
    { kind: "h", at, text: "i" },
  ];
  const replaced = (event: unknown, first: number): string => {
    let next = first;
    return JSON.stringify(event, (key, value) => {
      return typeof value !== "string" || key === "type" ? value : texts[next++ % texts.length];
    });
  };
  return texts.flatMap((_, i) => events.map((event) => `id: 1\nevent: x\ndata: ${replaced(event, i)}\n\n`)).join("");
}

/**
 * Requests with the text in their path, id and fields. As bytes, since the clients of others write what they like. Returns the
 * texts whose requests are answered with 400.
 */
async function send(port: number, texts: readonly string[]): Promise<string[]> {
  const heads = texts.map((text, i) => {
    const bytes = Buffer.from(text)
      .toString("latin1")
      .replaceAll(/[\0\t ]/g, "_");
    return `GET /nowhere/${bytes} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.${i % 256}\r\nUser-Agent: ${bytes}\r\nX-Request-Id: ${bytes}\r\nConnection: close\r\n\r\n`;
  });
  const unread: string[] = [];
  for (let at = 0; at < heads.length; at += 20) {
    const answers = await Promise.all(heads.slice(at, at + 20).map((head) => exchange(port, head)));
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
    unread.push(...texts.slice(at, at + 20).filter((_, i) => answers[i]?.startsWith("HTTP/1.1 400 ")));
  }
  return unread;
}
