// What the console calls wrong: each state of the gateway with its severity and its runbook, the worst first.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { lines } from "../../deploy/grafana/source/colors.ts";
import * as colors from "../../src/admin/console/colors.js";
import { countsOf, headlineOf, kindOf, problemsOf, thresholds, worstOf } from "../../src/admin/console/problems.js";
import { localReplies, refusalReasons } from "../../src/core/local-reply.ts";
import { status as shown } from "../admin/fake-plane.ts";

const well = { ...shown, certificate: null, tokens: null, possibleProxies: [] };
const upstream = { answered: 100, meanSeconds: 0.01, abandoned: 0, failedByReason: {} };
const step = { seconds: 5, admitted: 100, refused: {}, latencySeconds: null, upstream, store: null };
const history = { stepSeconds: 5, end: null, steps: [null, step] };
const certificate = { subject: "CN=a", expires: "", expiresInSeconds: 90 * 86_400, isCurrent: true };
const config = well.config;
const lastReload = { at: "", by: "file", outcome: "failed", errors: ["a is wrong"], refused: [] };
const lastTrial = { outcome: "taken_back", reason: "asked", by: "ops", trial: shown.trial };

type Changes = Readonly<Record<string, unknown>>;

const cases: readonly [name: string, status: Changes, step: Changes, severity: string, runbook: string | null][] = [
  ["a drain", { state: "draining" }, {}, "warning", null],
  [
    "workers that do not serve",
    { workers: { configured: 2, serving: 1, restarts: 0 } },
    {},
    "critical",
    "HeadgateWorkerRestarts",
  ],
  ["a peer that may be a proxy", { possibleProxies: ["10.0.0.9"] }, {}, "warning", "HeadgateOneClient"],
  [
    "a wrong configuration",
    { config: { ...config, isCurrent: false, lastReload } },
    {},
    "warning",
    "HeadgateReloadFailed",
  ],
  [
    "a trial that was taken back",
    { config: { ...config, isCurrent: false, lastReload: { ...lastReload, by: "trial", errors: [] } }, lastTrial },
    {},
    "warning",
    "HeadgateReloadTakenBack",
  ],
  [
    "a trial that cannot be taken back",
    { config: { ...config, isCurrent: false, lastReload: { ...lastReload, by: "trial" } } },
    {},
    "warning",
    "HeadgateReloadFailed",
  ],
  [
    "values that need a restart",
    { config: { ...config, restart: ["workers"] } },
    {},
    "warning",
    "HeadgateRestartRequired",
  ],
  [
    "an upstream that is down",
    { upstream: { ...well.upstream, state: "down", reason: "refused", addresses: [] } },
    {},
    "critical",
    "HeadgateUpstreamDown",
  ],
  [
    "an address that is ejected",
    { upstream: { ...well.upstream, addresses: [{ address: "a:1", state: "ejected", reason: "reset", active: 0 }] } },
    {},
    "warning",
    "HeadgateUpstreamAddressEjected",
  ],
  ["a store that is away", { store: { ...well.store, state: "away" } }, {}, "warning", "HeadgateStoreAway"],
  [
    "a store that is away, without which nothing is admitted",
    { store: { ...well.store, state: "away", onFailure: "closed" } },
    {},
    "critical",
    "HeadgateStoreAway",
  ],
  ["a store that answers too late", {}, { refused: { store_unavailable: 1 } }, "critical", "HeadgateStoreSlow"],
  ["a slow store", { store: { ...well.store, state: "slow" } }, {}, "warning", "HeadgateStoreSlow"],
  [
    "an expired certificate",
    { certificate: { ...certificate, expiresInSeconds: -1 } },
    {},
    "critical",
    "HeadgateCertificateExpiresNow",
  ],
  [
    "one that expires today",
    { certificate: { ...certificate, expiresInSeconds: 3_600 } },
    {},
    "critical",
    "HeadgateCertificateExpiresNow",
  ],
  [
    "one that expires in 13 days",
    { adminCertificate: { ...certificate, expiresInSeconds: 13 * 86_400 } },
    {},
    "warning",
    "HeadgateCertificateExpires",
  ],
  [
    "a stale certificate",
    { certificate: { ...certificate, isCurrent: false } },
    {},
    "warning",
    "HeadgateCertificateStale",
  ],
  ["tokens that end", { tokens: { listed: 2, ending: 1 } }, {}, "note", null],
  ["a bug", {}, { refused: { internal: 1 } }, "critical", "HeadgateInternalError"],
  [
    "failures of the upstream",
    {},
    { upstream: { ...upstream, failedByReason: { reset: 2 } } },
    "critical",
    "HeadgateUpstreamFailing",
  ],
  ["clients that give up", {}, { upstream: { ...upstream, abandoned: 6 } }, "warning", "HeadgateUpstreamSlow"],
  ["no free connection", {}, { refused: { overloaded: 1 } }, "critical", "HeadgateUpstreamBusy"],
  ["a quarter throttled", {}, { refused: { throttled: 34 } }, "warning", "HeadgateThrottlesMost"],
  ["a quarter blocked", {}, { refused: { blocked: 34, throttled: 1 } }, "warning", "HeadgateManyBlocked"],
  ["a quarter without a token", {}, { refused: { no_token: 34 } }, "warning", "HeadgateTokensRefused"],
  ["a quarter of what is too long", {}, { refused: { target_too_long: 34 } }, "warning", null],
];

test.each(cases)("%s is shown with its runbook", (_name, changes, changed, severity, runbook) => {
  const steps = [null, { ...step, ...changed }];
  const problems = problemsOf({ ...well, ...changes }, { ...history, steps }, null);
  expect(problems).toMatchObject([{ severity, runbook, text: expect.stringMatching(/\S/) }]);
  expect(worstOf(problems)).toBe(severity === "note" ? "well" : severity);
});

describe("the first sentence", () => {
  const headline = (status: Changes, refused: Readonly<Record<string, number>>) => {
    const steps = [{ ...step, refused }];
    return headlineOf(problemsOf({ ...well, ...status }, { ...history, steps }, null), countsOf(steps)).replaceAll(
      "\u00a0",
      " ",
    );
  };

  test.each([
    [{}, {}, "Healthy"],
    [{}, { throttled: 10, no_token: 1 }, "Healthy, 9 % throttled, 0.9 % refused"],
    // What clients do is no problem of the gateway, and what fails is none of the clients.
    [{}, { throttled: 80, blocked: 20 }, "Healthy, 40 % throttled, 10 % refused"],
    [{}, { throttled: 50, upstream_failed: 50 }, "Healthy, 25 % failed, 25 % throttled"],
    [{ state: "draining" }, { throttled: 100 }, "1 problem, 50 % throttled"],
    [{ state: "draining" }, { internal: 100 }, "2 problems, 50 % failed"],
  ])("%o with %o: %s", (status, refused, expected) => {
    expect(headline(status, refused)).toBe(expected);
  });

  test("each reason is of one kind: throttled is 429, failed is 5xx, and the others are refused", () => {
    const statuses = new Map(
      Object.values(localReplies).flatMap(({ reason, status }) => (reason ? [[reason, status]] : [])),
    );
    // A client that takes too much is refused with 503, and what the gateway does not support with 501.
    const refusedWith5xx = ["client_share", "unsupported_encoding", "unsupported_method"];
    for (const reason of refusalReasons) {
      const status = Number(statuses.get(reason));
      const isRefused = status < 500 || refusedWith5xx.includes(reason);
      expect([reason, kindOf(reason)]).toEqual([
        reason,
        status === 429 ? "throttled" : isRefused ? "refused" : "failed",
      ]);
    }
  });
});

test("thresholds are those of the alerts", () => {
  const alerts = readFileSync(new URL("../../deploy/prometheus/alerts.rules.yaml", import.meta.url), "utf8");
  const limitOf = (alert: string, pattern: RegExp): number => {
    const [, rule = ""] = alerts.split(`- alert: ${alert}\n`);
    return Number(pattern.exec(rule)?.[1]);
  };
  const day = /- time\(\) < (?:(\d+) \* )?86400/;
  expect(thresholds.upstreamFailingShare).toBe(limitOf("HeadgateUpstreamFailing", / > ([\d.]+)\n/));
  expect(thresholds.certificateExpiresDays).toBe(limitOf("HeadgateCertificateExpires", day));
  expect(thresholds.certificateExpiresNowDays * 86_400).toBe(
    limitOf("HeadgateCertificateExpiresNow", /- time\(\) < (\d+)\n/),
  );
});

test("each runbook that is named exists", () => {
  const page = readFileSync(new URL("../../docs/runbooks.md", import.meta.url), "utf8");
  for (const [, , , , runbook] of cases) expect(page).toContain(runbook === null ? "" : `\n## ${runbook}\n`);
  expect(page).toContain("\n## HeadgateDown\n");
});

describe("what is not wrong", () => {
  test("a gateway that serves, with some refusals, or without any traffic", () => {
    const refused = {
      ...step,
      refused: { throttled: 20, no_token: 13 },
      upstream: { ...upstream, abandoned: 5, failedByReason: { reset: 1 } },
    };
    for (const steps of [[], [null], [step], [refused], [{ ...step, admitted: 0, refused: { throttled: 11 } }]]) {
      expect(problemsOf(well, { ...history, steps }, null)).toEqual([]);
    }
    expect(problemsOf(well, null, null)).toEqual([]);
    expect(worstOf([])).toBe("well");
  });

  test("what failed at the upstream is a note with its time, by the second if the page has heard that it was down", () => {
    const failing = {
      ...step,
      refused: { upstream_failed: 74 },
      upstream: { ...upstream, failedByReason: { refused: 74 } },
    };
    const steps = [step, failing, null, failing, ...new Array(20).fill(step)];
    const at = (seconds: number) => new Date(Date.UTC(2026, 10, 24, 12, 0, seconds)).toISOString();
    const known = { ...history, end: at(120), steps };
    const textsOf = (changed: Changes, heard: object[] = []) =>
      problemsOf(well, { ...known, ...changed }, null, heard).map((one) => one && `${one.severity} ${one.text}`);
    expect(textsOf({})).toEqual([
      expect.stringMatching(
        /^note The upstream failed 42\.5 % of requests 24 Nov, \d+:00:05–24 Nov, \d+:00:20 \(15 s\): 148 × 502, connection refused\.$/,
      ),
    ]);
    const down = { from: at(6), to: at(18) };
    expect(textsOf({}, [down, { from: at(90), to: null }])).toEqual([
      expect.stringMatching(
        /^note The upstream was down 24 Nov, \d+:00:06–24 Nov, \d+:00:18 \(12 s\): 148 × 502, connection refused\.$/,
      ),
    ]);
    expect(textsOf({ steps: [step, failing] })).toEqual([
      expect.stringMatching(
        /^critical The upstream has failed 42\.5 % of requests since 24 Nov, \d+:01:55: 74 × 502, connection refused\.$/,
      ),
    ]);
    // It fails a part of its requests all the time, and was down for a second.
    expect(textsOf({ steps: new Array(24).fill(failing) }, [{ from: at(60), to: at(61) }])).toEqual([
      expect.stringMatching(/^critical The upstream has failed 42\.5 % of requests since /),
    ]);
  });

  test("the addresses that fail are named, if they are known", () => {
    const failing = { ...step, upstream: { ...upstream, failedByReason: { malformed: 50, reset: 50 } } };
    const failures = [
      ...["10.0.0.1:80", "10.0.0.2:80"].map((address) => ({ reason: "malformed", address, count: 25 })),
      { reason: "reset", address: null, count: 50 },
    ];
    const lastMinutes = { seconds: 300, answered: 100, meanSeconds: 0.01, failures };
    const status = { ...well, upstream: { ...well.upstream, lastMinutes } };
    const named = /: malformed at 10\.0\.0\.1:80, 10\.0\.0\.2:80, connection reset\.$/;
    expect(problemsOf(status, { ...history, steps: [failing] }, null)).toMatchObject([
      { text: expect.stringMatching(named) },
    ]);
    const problemsSince = (steps: number) => {
      return problemsOf(status, { ...history, steps: [step, failing, ...new Array(steps).fill(step)] }, null);
    };
    expect(problemsSince(59)).toMatchObject([{ text: expect.stringMatching(named) }]);
    // It had ended before the minutes of which addresses are known.
    expect(problemsSince(60)).toMatchObject([{ text: expect.stringMatching(/: malformed, connection reset\.$/) }]);
  });

  test("what was wrong more than a minute ago", () => {
    const steps = [{ ...step, refused: { internal: 1 } }, ...new Array(12).fill(step)];
    expect(problemsOf(well, { ...history, steps }, null)).toEqual([]);
  });
});

test("a store that is away: since when, and what that means for clients", () => {
  const textOf = (since: string | null, onFailure = "local") => {
    const status = { ...well, store: { ...well.store, state: "away", since, onFailure } };
    const texts = problemsOf(status, history, null).map((one) => (one ? one.text : ""));
    return String(texts[0]).replace(/\d+(?=:\d\d:)/, "12");
  };
  const share = "each gateway admits its share of every limit.";
  expect(textOf("2020-11-24T12:01:50.000Z")).toBe(`The store has been away since 24 Nov, 12:01:50: ${share}`);
  expect(textOf(new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString())).toMatch(
    /^The store has been away since 12:\d\d:00: each/,
  );
  // It was never reached.
  expect(textOf(null, "open")).toBe("The store is away: nobody is limited.");
  expect(textOf(null, "closed")).toBe("The store is away: limited requests get 503.");
});

test("clients that left before the upstream answered are counted", () => {
  const steps = [{ ...step, upstream: { ...upstream, abandoned: 300 } }];
  expect(problemsOf(well, { ...history, steps }, null)).toMatchObject([
    { text: "300 requests (75 %) in the last minute: the client left before the upstream answered." },
  ]);
});

test("the worst stands first, before it that the gateway does not answer", () => {
  const bad = {
    ...well,
    state: "draining",
    upstream: { ...well.upstream, state: "down", reason: null, addresses: [] },
  };
  const away = { status: 0, message: "The gateway does not answer." };
  const problems = problemsOf(bad, history, away);
  expect(problems).toMatchObject([{ severity: "critical" }, { severity: "critical" }, { severity: "warning" }]);
  expect(problems[0]).toEqual({ severity: "critical", text: away.message, runbook: "HeadgateDown" });
});

test("colours are those of the Grafana dashboard", () => {
  expect(colors.lines).toEqual(Object.values(lines));
});
